"""The conversation as pure functions over a menu document."""
