"""The limit of the stack: a Flask application that only answers."""

from __future__ import annotations

from typing import Any

from flask import Flask

app = Flask("bare")


@app.route("/", methods=["GET", "POST"])
def answer() -> dict[str, Any]:
    """The same few bytes for every call."""
    return {"success": True, "data": {}, "message": "Done"}
