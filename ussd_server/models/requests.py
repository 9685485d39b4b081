"""The log of API requests, and how often each key called each endpoint on a day."""

from __future__ import annotations

from peewee import BigIntegerField, CompositeKey, IntegerField, TextField

from ussd_server.database.columns import IdField, MomentField, Table


class ApiRequest(Table):
    """A request that was refused or that changed something. `path` is the template of the route.

    `body` are the first bytes of a refused body, secrets as stars. `object_id` names what the request made or changed.
    """

    id = IdField(primary_key=True)
    request_id = TextField()
    client_id = IdField()
    key_id = IdField(null=True)
    at = MomentField()
    method = TextField()
    path = TextField()
    status = IntegerField()
    code = TextField()
    message = TextField()
    took_ms = IntegerField()
    address = TextField()
    object_id = TextField(null=True)
    body = TextField(null=True)

    class Meta:
        table_name = "api_requests"


class KeyUsage(Table):
    """How often a key called an endpoint with one result on a day in Kampala. `scope` is what the endpoint needs."""

    key_id = IdField()
    day = TextField()
    endpoint = TextField()
    status = IntegerField()
    code = TextField()
    scope = TextField()
    count = BigIntegerField()

    class Meta:
        table_name = "key_usage"
        primary_key = CompositeKey("key_id", "day", "endpoint", "status", "code")
