"""Menus and their versions, service codes, channels, conversations and remembered languages."""

from ussd_server.database.schema import execute_all
from ussd_server.database.unit_of_work import is_postgres

_TABLES = """
CREATE TABLE menus (
    id {id} PRIMARY KEY,
    client_id {id} NOT NULL REFERENCES clients (id),
    name text NOT NULL,
    draft text NOT NULL,
    draft_saved_at {moment} NOT NULL,
    published_version integer,
    UNIQUE (client_id, name)
) {strict};;
CREATE TABLE menu_versions (
    menu_id {id} NOT NULL REFERENCES menus (id),
    version integer NOT NULL CHECK (version > 0),
    client_id {id} NOT NULL,
    document text NOT NULL,
    published_at {moment} NOT NULL,
    PRIMARY KEY (menu_id, version)
) {strict};;
CREATE TABLE service_codes (
    code text PRIMARY KEY,
    client_id {id} NOT NULL REFERENCES clients (id),
    menu_id {id} REFERENCES menus (id),
    created_at {moment} NOT NULL
) {strict};;
CREATE INDEX service_codes_client ON service_codes (client_id);;
CREATE TABLE channels (
    id {id} PRIMARY KEY,
    client_id {id} REFERENCES clients (id),
    name text NOT NULL,
    adapter text NOT NULL,
    secret_digest {bytes} NOT NULL UNIQUE,
    secret_sealed {bytes} NOT NULL,
    codes text,
    settings text NOT NULL,
    is_active {bool} NOT NULL,
    created_at {moment} NOT NULL
) {strict};;
CREATE TABLE ussd_sessions (
    id {id} PRIMARY KEY,
    client_id {id} NOT NULL REFERENCES clients (id),
    key_id {id},
    channel_id {id},
    provider_session_id text,
    phone_number text NOT NULL,
    service_code text NOT NULL,
    network text NOT NULL,
    status text NOT NULL CHECK (status IN
        ('active', 'completed', 'timed_out', 'ended_by_user', 'ended_by_client', 'invalidated', 'failed')),
    end_reason text,
    menu_id {id} NOT NULL REFERENCES menus (id),
    menu_version integer NOT NULL,
    node text NOT NULL,
    language text NOT NULL,
    turn integer NOT NULL,
    state text NOT NULL,
    turns text NOT NULL,
    action text NOT NULL CHECK (action IN ('continue', 'end')),
    message text NOT NULL,
    transaction_id {id},
    working_token text,
    working_until {moment},
    created_at {moment} NOT NULL,
    last_seen_at {moment} NOT NULL,
    expires_at {moment} NOT NULL,
    ended_at {moment},
    CHECK ((ended_at IS NULL) = (status = 'active'))
) {strict};;
CREATE INDEX ussd_sessions_newest ON ussd_sessions (client_id, id);;
CREATE UNIQUE INDEX ussd_sessions_at_gateway ON ussd_sessions (channel_id, provider_session_id)
    WHERE channel_id IS NOT NULL AND status = 'active';;
CREATE INDEX ussd_sessions_ended_at_gateway ON ussd_sessions (channel_id, provider_session_id, id);;
CREATE INDEX ussd_sessions_of_phone ON ussd_sessions (client_id, phone_number, id);;
CREATE INDEX ussd_sessions_of_key ON ussd_sessions (key_id) WHERE key_id IS NOT NULL AND status = 'active';;
CREATE INDEX ussd_sessions_expiring ON ussd_sessions (expires_at) WHERE status = 'active';;
CREATE TABLE subscriber_languages (
    client_id {id} NOT NULL REFERENCES clients (id),
    phone_number text NOT NULL,
    language text NOT NULL,
    PRIMARY KEY (client_id, phone_number)
) {strict}
"""
_POSTGRES_RULES = """
CREATE TRIGGER menu_versions_keep BEFORE UPDATE OR DELETE ON menu_versions
    FOR EACH ROW EXECUTE FUNCTION refuse_change();;
CREATE TRIGGER menu_versions_keep_all BEFORE TRUNCATE ON menu_versions EXECUTE FUNCTION refuse_change()
"""
_SQLITE_RULES = """
CREATE TRIGGER menu_versions_keep BEFORE DELETE ON menu_versions
BEGIN SELECT RAISE(ABORT, 'rows of menu_versions are never removed'); END;;
CREATE TRIGGER menu_versions_unedited BEFORE UPDATE ON menu_versions
BEGIN SELECT RAISE(ABORT, 'rows of menu_versions are never changed'); END
"""


def up(migrator, db):
    execute_all(db, _TABLES)
    execute_all(db, _POSTGRES_RULES if is_postgres() else _SQLITE_RULES)
