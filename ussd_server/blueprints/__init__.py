"""The doors: parse, call one service method, wrap the reply."""
