"""Reports: what became final on a day, what goes on now, and the files that are written each night."""
