"""Commands about accounts, fees and transactions."""
