"""What a team would build with the usual parts: Flask, Flask-Limiter, Peewee, marshmallow and Flask's own JSON."""
