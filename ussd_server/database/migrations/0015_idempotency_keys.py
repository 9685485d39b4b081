"""Every idempotency key with its transaction, so that a key that came with a repeat is bound as well."""

from ussd_server.database.schema import execute_all
from ussd_server.database.unit_of_work import is_postgres

_TABLE = """
CREATE TABLE idempotency_keys (
    client_id {id} NOT NULL REFERENCES clients (id),
    key text NOT NULL,
    transaction_id {id} NOT NULL REFERENCES transactions (id),
    created_at {moment} NOT NULL,
    PRIMARY KEY (client_id, key)
) {strict_by_key}
"""

# Keys of transactions and keys of repeats meet in one primary key: two calls at once cannot bind one key twice. Keys of
# transactions that are older than this table stand in `transactions` alone, whose own unique index keeps them.
_BIND = """INSERT INTO idempotency_keys (client_id, key, transaction_id, created_at)
        VALUES (NEW.client_id, NEW.idempotency_key, NEW.id, NEW.created_at);"""

_POSTGRES_RULES = f"""
CREATE FUNCTION bind_idempotency_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    {_BIND}
    RETURN NULL;
END $$;;
CREATE TRIGGER transactions_bind_key AFTER INSERT ON transactions
    FOR EACH ROW WHEN (NEW.idempotency_key IS NOT NULL) EXECUTE FUNCTION bind_idempotency_key();;
CREATE TRIGGER idempotency_keys_keep BEFORE UPDATE OR DELETE ON idempotency_keys
    FOR EACH ROW EXECUTE FUNCTION refuse_change();;
CREATE TRIGGER idempotency_keys_keep_all BEFORE TRUNCATE ON idempotency_keys EXECUTE FUNCTION refuse_change()
"""
# REPLACE removes the row in its way without asking any trigger for deletions.
_SQLITE_RULES = f"""
CREATE TRIGGER transactions_bind_key AFTER INSERT ON transactions WHEN NEW.idempotency_key IS NOT NULL
BEGIN {_BIND} END;;
CREATE TRIGGER idempotency_keys_unreplaced BEFORE INSERT ON idempotency_keys
WHEN EXISTS (SELECT 1 FROM idempotency_keys WHERE client_id = NEW.client_id AND key = NEW.key)
BEGIN SELECT RAISE(ABORT, 'rows of idempotency_keys are never replaced'); END;;
CREATE TRIGGER idempotency_keys_unedited BEFORE UPDATE ON idempotency_keys
BEGIN SELECT RAISE(ABORT, 'rows of idempotency_keys are never changed'); END;;
CREATE TRIGGER idempotency_keys_keep BEFORE DELETE ON idempotency_keys
BEGIN SELECT RAISE(ABORT, 'rows of idempotency_keys are never removed'); END
"""


def up(migrator, db):
    execute_all(db, _TABLE)
    execute_all(db, _POSTGRES_RULES if is_postgres() else _SQLITE_RULES)
