"""Marshmallow schemas of the API: request bodies, query parameters and the records in replies.

A `...Body` or `...Query` is named after the message that it becomes, a `...Record` after what it shows.
"""
