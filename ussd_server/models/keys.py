"""API keys, the names of deleted ones that may never be issued again, and the requests of keys and people."""

from __future__ import annotations

from peewee import BigIntegerField, BlobField, BooleanField, CompositeKey, IntegerField, TextField

from ussd_server.database.tables import CentsField, IdField, JsonField, MomentField, PeopleField, Table, fixed


class ApiKey(Table):
    """A key and its secret.

    The secret is stored encrypted (`secret_sealed`, to show it again) and as an HMAC (`secret_digest`, to authenticate
    with). Both name their master key. The `previous_` columns hold the secret that a rotation replaced, valid until
    `previous_secret_expires_at`. `created_by` is the id of a person, null for a key of the operator's;
    `allowed_addresses` are networks with spaces between, null for any. `bounds_set_by` has for each column that bounds
    the key the role of the person who set it, or `operator`. `people` made or rotated the key, `readers` read its
    secret; `behind_secret` says who of them stands behind it.
    """

    id = fixed(IdField(primary_key=True))
    client_id = fixed(IdField())
    apikey = fixed(TextField(unique=True))
    secret_sealed = BlobField()
    secret_digest = BlobField()
    digest_key_id = TextField()
    previous_secret_sealed = BlobField(null=True)
    previous_secret_digest = BlobField(null=True)
    previous_secret_expires_at = MomentField(null=True)
    scopes = TextField(null=True)
    is_active = BooleanField()
    created_at = MomentField()
    updated_at = MomentField()
    expires_at = MomentField(null=True)
    last_used_at = MomentField(null=True)
    people = PeopleField(null=True)
    previous_people = PeopleField(null=True)
    readers = PeopleField(null=True)
    previous_readers = PeopleField(null=True)
    name = TextField(null=True)
    created_by = fixed(IdField(null=True))
    allowed_addresses = TextField(null=True)
    daily_limit_cents = CentsField(null=True)
    last_used_address = TextField(null=True)
    bounds_set_by = JsonField()


def behind_secret(
    people: frozenset[str] | None, readers: frozenset[str] | None, *, counts_readers: bool
) -> frozenset[str]:
    """Return who stands behind a secret of a key: its readers too, where its client counts them."""
    return frozenset().union(people or (), (counts_readers and readers) or ())


class DeletedApiKey(Table):
    """The tombstone of a deleted key: its `apikey` is never issued or imported again."""

    apikey = TextField(primary_key=True)
    id = IdField()
    client_id = IdField()
    deleted_at = MomentField()


class KeySpending(Table):
    """The sum paid with a key on a day of Kampala, such as `2026-11-20`, in cents."""

    key_id = IdField()
    day = TextField()
    spent_cents = CentsField()

    class Meta:
        table_name = "key_spending"
        primary_key = CompositeKey("key_id", "day")


class UnseenChanges(Table):
    """One row: the number of key changes that could not reach Redis. Every process with a key cache reads it."""

    number = BigIntegerField()

    class Meta:
        table_name = "unseen_changes"


class ApiRequest(Table):
    """A request that was refused or that changed something. `path` is the template of the route.

    `user_id` is the person who called without a key. `body` are the first bytes of a refused body, secrets as stars.
    `object_id` names what the request made or changed.
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
    user_id = IdField(null=True)


class KeyUsage(Table):
    """How often a key called an endpoint with one result on a day in Kampala, and when and from where it did so last.

    `scope` is what the endpoint needs.
    """

    key_id = IdField()
    day = TextField()
    endpoint = TextField()
    status = IntegerField()
    code = TextField()
    scope = TextField()
    count = BigIntegerField()
    last_at = MomentField()
    last_address = TextField()

    class Meta:
        table_name = "key_usage"
        primary_key = CompositeKey("key_id", "day", "endpoint", "status", "code")
