"""Messages about the health and the state of the installation."""
