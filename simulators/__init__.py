"""Stand-ins that answer like MTN and Airtel: `python -m simulators.mtn` or `.airtel`, `server.run` in a test."""
