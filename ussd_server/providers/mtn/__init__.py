"""MTN Mobile Money."""
