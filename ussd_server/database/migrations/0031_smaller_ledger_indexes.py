"""Indexes of transfers without the columns, rows and duplicates that no query needs."""

from ussd_server.database.schema import build_index, drop_index, execute_all
from ussd_server.database.unit_of_work import is_postgres

# PostgreSQL builds an index beside writers outside of every transaction only.
atomic = not is_postgres()


def up(migrator, db):
    # A hold changes nothing on the account that it would credit.
    build_index(db, "ledger_transfers_debited", "ledger_transfers (debit_account_id)")
    build_index(db, "ledger_transfers_credited", "ledger_transfers (credit_account_id) WHERE kind IN ('move', 'post')")
    # A transaction holds, voids and moves each of its sums at most once; a post moves too.
    effect = "CASE kind WHEN 'post' THEN 'move' ELSE kind END"
    build_index(db, "ledger_transfers_effects", f"ledger_transfers (transaction_id, purpose, ({effect}))", unique=True)
    for name in ("debits", "credits", "once", "moved_once"):
        drop_index(db, f"ledger_transfers_{name}")
    if is_postgres():
        # A constraint would index the holds themselves, which end none. SQLite cannot drop a constraint.
        build_index(db, "ledger_transfers_ends", "ledger_transfers (hold_id) WHERE hold_id IS NOT NULL", unique=True)
        execute_all(db, "ALTER TABLE ledger_transfers DROP CONSTRAINT IF EXISTS ledger_transfers_hold_id_key")
