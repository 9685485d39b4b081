"""Makes this process cooperative; to be imported before `ssl`, `redis` and `psycopg`."""

from gevent.monkey import patch_all

patch_all()
