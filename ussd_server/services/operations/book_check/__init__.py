"""The book check: whether money, status histories and events in the database agree."""
