"""The limit of the stack: a Flask application that returns a constant."""

from __future__ import annotations

from typing import Any

from flask import Flask

app = Flask("bare")


@app.route("/", methods=["GET", "POST"])
def answer() -> dict[str, Any]:
    """Return the same few bytes to every request."""
    return {"success": True, "data": {}, "message": "Done"}
