"""Writes the documents that are made from the service, and plays the examples of the OpenAPI document."""
