"""Entries of the movements that were there before, and the rules that keep entries as they are."""

from ussd_server.database.schema import execute_all
from ussd_server.database.unit_of_work import is_postgres

# In the order of the transfers' own times, each at least a microsecond after the one before, and before the first entry
# that a trigger wrote. Nothing is locked: payments go on, and their entries are not touched.
_HISTORY = """
INSERT INTO ledger_entries (account_id, posted_us, transfer_id, balance_cents)
WITH legs AS (
    SELECT account.id AS account_id, moved.id AS transfer_id, {made_us} AS made_us,
        CASE account.id WHEN debit_account_id THEN -amount_cents ELSE amount_cents END AS cents
    FROM ledger_transfers AS moved
        JOIN ledger_accounts AS account ON account.id IN (debit_account_id, credit_account_id)
    WHERE moved.kind IN ('move', 'post') AND account.kind IN ('main', 'subscriber')
        AND NOT EXISTS (SELECT 1 FROM ledger_entries AS known
            WHERE known.account_id = account.id AND known.transfer_id = moved.id)
), numbered AS (
    SELECT account_id, transfer_id, made_us, row_number() OVER ordered AS place,
        count(*) OVER (PARTITION BY account_id) AS places, sum(cents) OVER ordered AS balance
    FROM legs WINDOW ordered AS (PARTITION BY account_id ORDER BY made_us, transfer_id)
), spread AS (
    SELECT account_id, transfer_id, places - place AS following, balance,
        place + max(made_us - place) OVER (PARTITION BY account_id ORDER BY place) AS spread_us
    FROM numbered
), firsts AS (
    SELECT account_id AS id, min(posted_us) AS first_us FROM ledger_entries GROUP BY account_id
)
SELECT account_id, {least}(spread_us, coalesce(first_us, {now_us}) - 1 - following), transfer_id, {balance}
FROM spread LEFT JOIN firsts ON firsts.id = account_id
"""

_ON_POSTGRES = {
    "{made_us}": "(extract(epoch FROM moved.created_at) * 1000000)::bigint",
    "{now_us}": "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
    "{least}": "least",
    "{balance}": "balance::bigint",
}
_SQLITE_US = "CAST(strftime('%s', {0}) AS integer) * 1000000 + CAST(substr(strftime('%f', {0}), 4) AS integer) * 1000"
_ON_SQLITE = {
    "{made_us}": _SQLITE_US.format("moved.created_at"),
    "{now_us}": _SQLITE_US.format("'now'"),
    "{least}": "min",
    "{balance}": "balance",
}

# The condition is compared without a call of a function: a payment does not notice it.
_POSTGRES_RULES = """
CREATE TRIGGER ledger_entries_written_by_transfers BEFORE INSERT ON ledger_entries
    FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION refuse_change();;
CREATE TRIGGER ledger_entries_keep BEFORE UPDATE OR DELETE ON ledger_entries
    FOR EACH ROW EXECUTE FUNCTION refuse_change();;
CREATE TRIGGER ledger_entries_keep_all BEFORE TRUNCATE ON ledger_entries EXECUTE FUNCTION refuse_change()
"""

_SQLITE_RULES = """
CREATE TRIGGER ledger_entries_written_by_transfers BEFORE INSERT ON ledger_entries
WHEN NOT EXISTS (
        SELECT 1 FROM ledger_accounts AS account JOIN ledger_transfers AS moved
            ON moved.position = account.last_transfer AND moved.kind IN ('move', 'post')
        WHERE account.id = NEW.account_id AND account.kind IN ('main', 'subscriber')
            AND account.balance_cents = NEW.balance_cents AND moved.id = NEW.transfer_id)
    OR EXISTS (SELECT 1 FROM (
            SELECT posted_us, transfer_id FROM ledger_entries WHERE account_id = NEW.account_id
            ORDER BY posted_us DESC LIMIT 1) AS last
        WHERE last.posted_us >= NEW.posted_us OR last.transfer_id = NEW.transfer_id)
BEGIN SELECT RAISE(ABORT, 'only a transfer writes an entry'); END;;
CREATE TRIGGER ledger_entries_keep BEFORE DELETE ON ledger_entries
BEGIN SELECT RAISE(ABORT, 'rows of ledger_entries are never removed'); END;;
CREATE TRIGGER ledger_entries_unedited BEFORE UPDATE ON ledger_entries
BEGIN SELECT RAISE(ABORT, 'rows of ledger_entries are never changed'); END
"""


def up(migrator, db):
    history = _HISTORY
    for placeholder, written in (_ON_POSTGRES if is_postgres() else _ON_SQLITE).items():
        history = history.replace(placeholder, written)
    execute_all(db, history + ";;" + (_POSTGRES_RULES if is_postgres() else _SQLITE_RULES))
