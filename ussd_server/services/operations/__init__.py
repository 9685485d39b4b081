"""Health, metrics, heartbeats, retention, the book check and the master keys."""
