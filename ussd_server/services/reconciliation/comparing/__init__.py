"""Lines of a statement are compared with our transactions."""
