"""Messages (SMS): written with the change that they report, sent by the worker, and reported by the sender."""
