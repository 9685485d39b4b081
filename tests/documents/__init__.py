"""How docs/API.md comes about: a story that is played over HTTP, and what is kept of it."""
