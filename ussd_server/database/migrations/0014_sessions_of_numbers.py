"""A gateway's session id names one session of each phone number, not one of all."""

from ussd_server.database.schema import build_index, drop_index
from ussd_server.database.unit_of_work import is_postgres

# PostgreSQL builds an index beside writers outside of every transaction only.
atomic = not is_postgres()

_ACTIVE = "channel_id IS NOT NULL AND status = 'active'"


def up(migrator, db):
    columns = "ussd_sessions (channel_id, provider_session_id, phone_number)"
    build_index(db, "ussd_sessions_at_channel", f"{columns} WHERE {_ACTIVE}", unique=True)
    drop_index(db, "ussd_sessions_at_gateway")
