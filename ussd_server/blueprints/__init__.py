"""Endpoints: parse the request, call one service method, wrap the reply."""
