"""Clients and their keys, which the API-key package keeps."""

from __future__ import annotations

from django.db import models
from rest_framework_api_key.models import AbstractAPIKey


class Client(models.Model):
    """A company that calls."""

    name = models.CharField(max_length=100)
    is_active = models.BooleanField(default=True)

    class Meta:
        app_label = "django_peer"


class ClientKey(AbstractAPIKey):
    """A key of a client."""

    client = models.ForeignKey(Client, on_delete=models.CASCADE, related_name="keys")
    scopes = models.TextField(null=True)
    last_used_at = models.DateTimeField(null=True)

    class Meta(AbstractAPIKey.Meta):
        app_label = "django_peer"
