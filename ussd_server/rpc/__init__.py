"""The call: who calls, how a call can end, and how often one may call."""
