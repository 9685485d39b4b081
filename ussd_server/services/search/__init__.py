"""Search over the objects of all capabilities."""
