"""Shared by all API endpoints: authentication, limits, permission, bodies and the reply."""
