"""Flask with Flask-Limiter, Peewee, marshmallow and Flask's own JSON."""
