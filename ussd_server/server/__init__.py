"""How the web processes run: gunicorn's workers, and what they need beyond gunicorn."""
