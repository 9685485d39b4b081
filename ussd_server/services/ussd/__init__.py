"""USSD: gateways and their channels, conversations, steps and menu actions."""
