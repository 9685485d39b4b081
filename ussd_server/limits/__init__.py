"""Rate limits: exact sliding windows in Redis, and the decision about a request."""
