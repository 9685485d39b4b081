"""People who read the secret of a key can act with it: where the client wants it, they count as people behind it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import for_update
from ussd_server.models.clients import Client
from ussd_server.models.keys import ApiKey
from ussd_server.services.clients.key_cache import KeyCache
from ussd_server.services.people import people_behind


def unread_keys(keys: Iterable[tuple[str, Iterable[str]]], context: RequestContext) -> list[str]:
    """The ids of the keys that have yet to count the caller as a person behind them; none for the operator.

    `keys` are ids and people. Scopes do not matter, because they can change.
    """
    person = context.caller.user_id
    unread = [] if person is None else [key_id for key_id, people in keys if person not in people]
    return unread if unread and Client.get_by_id(context.client_id).counts_readers else []


def add_reader(key_ids: Sequence[str], context: RequestContext, key_cache: KeyCache) -> None:
    """Count the caller as a person behind these keys, in every process from the return on.

    Read the secrets afterwards and look again: a rotation in between replaces secret and people.
    """
    client_id, person = context.client_id, context.caller.user_id
    assert client_id is not None
    assert person is not None
    readers = people_behind(client_id, [person])
    with key_cache.invalidate(client_id):
        keys = ApiKey.select(ApiKey.id, ApiKey.people).where(ApiKey.id.in_(key_ids), ApiKey.client_id == client_id)
        for key in for_update(keys.order_by(ApiKey.id)):
            ApiKey.update(people=readers.union(key.people or ())).where(ApiKey.id == key.id).execute()
