"""Django's settings: what the program needs and nothing else."""

from __future__ import annotations

from urllib.parse import urlsplit

from benchmarks.peers.common import DATABASE_URL, PEPPER, REDIS_URL

_server = urlsplit(DATABASE_URL)

SECRET_KEY = PEPPER.decode()
ALLOWED_HOSTS = ["127.0.0.1"]
ROOT_URLCONF = "benchmarks.peers.django_peer.urls"
INSTALLED_APPS = ["rest_framework", "rest_framework_api_key", "benchmarks.peers.django_peer"]
MIDDLEWARE = ["django.middleware.security.SecurityMiddleware", "django.middleware.common.CommonMiddleware"]
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _server.path.strip("/"),
        "HOST": _server.hostname,
        "PORT": _server.port,
        "USER": _server.username,
        "OPTIONS": {"pool": {"min_size": 4, "max_size": 16}},
    }
}
CACHES = {"default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": REDIS_URL}}
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["benchmarks.peers.django_peer.door.KeyAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["benchmarks.peers.django_peer.door.HasKey"],
    "DEFAULT_THROTTLE_CLASSES": [
        "benchmarks.peers.django_peer.door.MinuteThrottle",
        "benchmarks.peers.django_peer.door.HourThrottle",
    ],
    "DEFAULT_THROTTLE_RATES": {"minute": "100/min", "hour": "1000/hour"},
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "EXCEPTION_HANDLER": "benchmarks.peers.django_peer.door.refuse",
    "UNAUTHENTICATED_USER": None,
    "UNAUTHENTICATED_TOKEN": None,
}
