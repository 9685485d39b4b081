"""Redis: the client, its circuit, wake-up signals, provider outages and generations."""
