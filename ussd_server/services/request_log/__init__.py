"""The request log: what keys and people called, kept for two weeks, and how often each key called what."""
