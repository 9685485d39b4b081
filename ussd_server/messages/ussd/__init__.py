"""Messages about gateways, channels and the console's phone."""
