"""The providers that are switched on: their states, floats and subscribers."""
