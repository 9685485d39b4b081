"""The wire: what may come in and what goes out, as the API document names it."""
