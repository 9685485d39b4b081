"""Makes the tables and, for each of so many clients, a key; prints who may call."""

from __future__ import annotations

import json
import os
import sys

import django
from django.core.management import call_command


def prepare(count: int) -> None:
    """Do it in one go."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.peers.django_peer.settings"
    django.setup()
    call_command("migrate", run_syncdb=True, verbosity=0)

    from benchmarks.peers.django_peer.models import Client, ClientKey

    clients = Client.objects.bulk_create([Client(name=f"client {place}") for place in range(count)])
    keys = [ClientKey(name=client.name, client=client) for client in clients]
    pairs = [ClientKey.objects.assign_key(key).split(".") for key in keys]
    ClientKey.objects.bulk_create(keys)
    print(json.dumps({"keys": pairs}))


if __name__ == "__main__":
    prepare(int(sys.argv[1]))
