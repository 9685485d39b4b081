"""Messages about the money that clients keep here."""
