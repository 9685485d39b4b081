"""The check of the books: whether the database says the same everywhere."""
