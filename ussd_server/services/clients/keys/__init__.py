"""The parts of API keys: fields, bounds, messages, reading, notices, explanations. `api_keys.py` changes keys."""
