"""The conversation: pure functions over menu documents."""
