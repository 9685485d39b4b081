"""The first hour with a live provider: a few small payments, and a report of what was expected and what came."""
