"""The application that gunicorn loads."""

from __future__ import annotations

import os

from django.core.wsgi import get_wsgi_application

os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.peers.django_peer.settings"
application = get_wsgi_application()
