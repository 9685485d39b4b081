"""The place of each movement in the statement of its account, and the balance after it."""

from ussd_server.database.schema import execute_all
from ussd_server.database.unit_of_work import is_postgres

# No foreign keys and no checks: only the triggers below write rows, of a transfer and accounts that they have just
# read, and each reference would cost every payment a lock.
_TABLE = """
CREATE TABLE ledger_entries (
    account_id {id} NOT NULL,
    posted_us bigint NOT NULL,
    transfer_id {id} NOT NULL,
    balance_cents bigint NOT NULL,
    PRIMARY KEY (account_id, posted_us)
) {strict_by_key};;
"""

# `posted_us` is the service's time (service_clock.py) in microseconds since 1970, read while the posting holds the lock
# of the account. No other posting to that account can commit between, so the order of the entries is the order of the
# commits. The transfer's own time counts too: the database's clock may just have been set back.
_POSTGRES_RULES = """
CREATE FUNCTION ledger_enter() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO ledger_entries (account_id, posted_us, transfer_id, balance_cents)
        SELECT id, greatest(
            (date_part('epoch', clock_timestamp()) * 1000000)::bigint + coalesce((
                SELECT CASE WHEN ahead_ms = 0 THEN 0 ELSE sign(ahead_ms) * greatest(0, abs(ahead_ms) * 1000
                    - greatest(0, date_part('epoch', clock_timestamp() - decided_at)) * 10000) END
                FROM service_clock WHERE service_clock.id = 1)::bigint, 0),
            (date_part('epoch', NEW.created_at) * 1000000)::bigint,
            1 + (SELECT posted_us FROM ledger_entries WHERE account_id = ledger_accounts.id
                ORDER BY posted_us DESC LIMIT 1)), NEW.id, balance_cents
        FROM ledger_accounts
        WHERE id IN (NEW.debit_account_id, NEW.credit_account_id) AND kind IN ('main', 'subscriber');
    RETURN NULL;
END $$;;
-- Its name sorts behind `ledger_transfers_apply`, which moves the balances first.
CREATE TRIGGER ledger_transfers_enter AFTER INSERT ON ledger_transfers
    FOR EACH ROW WHEN (NEW.kind IN ('move', 'post')) EXECUTE FUNCTION ledger_enter()
"""

_SQLITE_RULES = """
CREATE TRIGGER ledger_accounts_enter AFTER UPDATE OF last_transfer ON ledger_accounts
WHEN NEW.kind IN ('main', 'subscriber') AND NEW.balance_cents <> OLD.balance_cents
BEGIN
    INSERT INTO ledger_entries (account_id, posted_us, transfer_id, balance_cents)
    SELECT NEW.id, max(
        CAST(strftime('%s', 'now') AS integer) * 1000000 + CAST(substr(strftime('%f', 'now'), 4) AS integer) * 1000
            + coalesce((
                SELECT CAST(sign(ahead_ms) * max(0, abs(ahead_ms) * 1000
                    - max(0, julianday('now') - julianday(decided_at)) * 864000000) AS integer)
                FROM service_clock WHERE id = 1), 0),
        CAST(strftime('%s', created_at) AS integer) * 1000000
            + CAST(substr(strftime('%f', created_at), 4) AS integer) * 1000,
        1 + coalesce((SELECT max(posted_us) FROM ledger_entries WHERE account_id = NEW.id), 0)), id, NEW.balance_cents
    FROM ledger_transfers WHERE position = NEW.last_transfer;
END
"""


def up(migrator, db):
    execute_all(db, _TABLE + (_POSTGRES_RULES if is_postgres() else _SQLITE_RULES))
