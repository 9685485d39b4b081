"""USSD: gateways, channels, sessions, conversations and transcripts."""
