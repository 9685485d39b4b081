"""The contract of the services: frozen dataclasses in, frozen dataclasses out, inner units only.

Each file or folder bears the name of the services that take and return its messages.
"""
