"""USSD: gateways, channels, sessions, conversations, menus and transcripts."""
