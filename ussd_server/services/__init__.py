"""Services: plain classes whose methods take a message and a context, and return a message or raise one error code."""
