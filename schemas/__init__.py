"""Marshmallow schemas of what callers send: request bodies and query parameters.

A `...Body` or `...Query` is named after the message that it becomes. What a reply shows is declared by its view, beside
the service (`ussd_server/wire.py`).
"""
