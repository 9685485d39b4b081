"""The rules of money, about accounts, transfers, refunds, receipts and names, as queries for violations.

Each query returns the ids, within (:low, :high], of rows that violate its rule. `:low_text` and `:high_text` are the
same bounds for columns that keep ids as text.
"""

from __future__ import annotations

from ussd_server.services.gates.given_back import IS_GIVEN_BACK

CLIENT_RULES = {
    "has accounts that do not add up to zero": """
        SELECT client_id FROM ledger_accounts WHERE client_id > :low AND client_id <= :high
        GROUP BY client_id HAVING sum(balance_cents) <> 0""",
}
ACCOUNT_RULES = {
    "has a balance or reservation that differs from its transfers": """
        WITH legs AS (
            SELECT debit_account_id AS account_id,
                sum(CASE WHEN kind IN ('move', 'post') THEN -amount_cents ELSE 0 END) AS moved,
                sum(CASE kind WHEN 'hold' THEN amount_cents WHEN 'move' THEN 0 ELSE -amount_cents END) AS held
            FROM ledger_transfers
            WHERE debit_account_id > :low AND debit_account_id <= :high GROUP BY debit_account_id
            UNION ALL
            SELECT credit_account_id, sum(amount_cents), 0 FROM ledger_transfers
            WHERE credit_account_id > :low AND credit_account_id <= :high AND kind IN ('move', 'post')
            GROUP BY credit_account_id
        ), history AS (SELECT account_id, sum(moved) AS balance, sum(held) AS reserved FROM legs GROUP BY account_id)
        SELECT id FROM ledger_accounts LEFT JOIN history ON account_id = id WHERE id > :low AND id <= :high
            AND (balance_cents <> coalesce(balance, 0) OR reserved_cents <> coalesce(reserved, 0) + held_cents)""",
    "holds other money for payouts than they hold": """
        WITH held AS (SELECT client_id, sum(held_cents) AS cents FROM payouts WHERE held_cents > 0 GROUP BY client_id)
        SELECT account.id FROM ledger_accounts AS account
            LEFT JOIN held ON held.client_id = account.client_id AND account.name = 'main'
        WHERE account.id > :low AND account.id <= :high AND account.held_cents <> coalesce(held.cents, 0)""",
    "has less than nothing": """
        SELECT id FROM ledger_accounts WHERE id > :low AND id <= :high AND (reserved_cents < 0
            OR (balance_cents < reserved_cents AND kind NOT IN ('provider', 'deposits', 'shortfall')))""",
    "has a statement that does not follow its transfers": """
        WITH entries AS (
            SELECT account_id, transfer_id, balance_cents - coalesce(lag(balance_cents) OVER ordered, 0) AS cents
            FROM ledger_entries WHERE account_id > :low AND account_id <= :high
            WINDOW ordered AS (PARTITION BY account_id ORDER BY posted_us)
        ), wrong AS (
            SELECT account_id FROM entries LEFT JOIN ledger_transfers AS moved ON moved.id = transfer_id
            WHERE moved.kind IS NULL OR moved.kind NOT IN ('move', 'post') OR cents <> CASE account_id
                WHEN debit_account_id THEN -amount_cents WHEN credit_account_id THEN amount_cents ELSE 0 END
        ), counted AS (
            SELECT account_id, count(*) AS written, count(DISTINCT transfer_id) AS transfers
            FROM ledger_entries WHERE account_id > :low AND account_id <= :high GROUP BY account_id
        ), moves AS (
            SELECT account_id, count(*) AS expected FROM (
                SELECT debit_account_id AS account_id FROM ledger_transfers
                WHERE debit_account_id > :low AND debit_account_id <= :high AND kind IN ('move', 'post')
                UNION ALL
                SELECT credit_account_id FROM ledger_transfers
                WHERE credit_account_id > :low AND credit_account_id <= :high AND kind IN ('move', 'post')
            ) AS legs GROUP BY account_id
        )
        SELECT account_id FROM wrong UNION
        SELECT account.id FROM ledger_accounts AS account
            LEFT JOIN counted ON counted.account_id = account.id
            LEFT JOIN moves ON moves.account_id = account.id
        WHERE account.id > :low AND account.id <= :high AND account.kind IN ('main', 'subscriber')
            AND (coalesce(written, 0) <> coalesce(expected, 0) OR written <> transfers
                OR account.balance_cents <> coalesce((
                    SELECT balance_cents FROM ledger_entries WHERE ledger_entries.account_id = account.id
                    ORDER BY posted_us DESC LIMIT 1), 0))""",
    # A lock wait or a paused machine may delay an entry by an hour at most. While a clock that was set back catches up,
    # each entry is a microsecond after the one before.
    "has a movement in its statement at another time than it was made": """
        WITH entries AS (
            SELECT account_id, transfer_id, posted_us, lag(posted_us) OVER ordered AS before_us
            FROM ledger_entries WHERE account_id > :low AND account_id <= :high
            WINDOW ordered AS (PARTITION BY account_id ORDER BY posted_us)
        ), timed AS (
            SELECT account_id, posted_us, coalesce(before_us, 0) AS before_us, {made_us} AS made_us
            FROM entries JOIN ledger_transfers AS moved ON moved.id = transfer_id
        )
        SELECT account_id FROM timed WHERE posted_us < made_us - 3600000000
            OR (posted_us > made_us + 3600000000 AND posted_us <> before_us + 1)""",
    "has a kind that is not that of its name": """
        SELECT id FROM ledger_accounts WHERE id > :low AND id <= :high
            AND kind <> CASE substr(name, 1, 1) WHEN '+' THEN 'subscriber' ELSE
                CASE substr(name, 1, 9) WHEN 'provider:' THEN 'provider' ELSE name END END""",
}
_RULES_OF_TRANSACTIONS = {
    "has a hold that was ended twice": """
        SELECT transaction_id FROM ledger_transfers
        WHERE transaction_id > :low AND transaction_id <= :high
        GROUP BY transaction_id, hold_id HAVING count(hold_id) > 1""",
    "moved the same money twice": """
        SELECT transaction_id FROM ledger_transfers
        WHERE transaction_id > :low AND transaction_id <= :high AND kind IN ('move', 'post')
        GROUP BY transaction_id, purpose, debit_account_id HAVING count(*) > 1""",
    "has a hold that was ended by something else than it reserved": """
        SELECT ended.transaction_id FROM ledger_transfers AS ended LEFT JOIN ledger_transfers AS held
            ON held.id = ended.hold_id AND held.kind = 'hold' AND held.transaction_id = ended.transaction_id
            AND held.purpose = ended.purpose AND held.amount_cents = ended.amount_cents
            AND held.debit_account_id = ended.debit_account_id AND held.credit_account_id = ended.credit_account_id
        WHERE ended.transaction_id > :low AND ended.transaction_id <= :high
            AND ended.kind IN ('post', 'void') AND held.id IS NULL""",
    "moved money of another client": """
        SELECT transaction_id FROM ledger_transfers AS moved
            LEFT JOIN transactions ON transactions.id = transaction_id AND transactions.client_id = moved.client_id
            LEFT JOIN ledger_accounts AS debited
                ON debited.id = debit_account_id AND debited.client_id = moved.client_id
            LEFT JOIN ledger_accounts AS credited
                ON credited.id = credit_account_id AND credited.client_id = moved.client_id
        WHERE transaction_id > :low AND transaction_id <= :high
            AND (transactions.id IS NULL OR debited.id IS NULL OR credited.id IS NULL)""",
    "moved money between other accounts than it names": """
        SELECT transaction_id FROM ledger_transfers AS moved
            JOIN transactions AS promise ON promise.id = transaction_id
            JOIN ledger_accounts AS debited ON debited.id = debit_account_id
            JOIN ledger_accounts AS credited ON credited.id = credit_account_id
        WHERE transaction_id > :low AND transaction_id <= :high
            AND NOT (promise.released_at IS NOT NULL AND moved.kind = 'move' AND purpose <> 'shortfall'
                AND debited.name = CASE WHEN purpose = 'fee' THEN 'fees'
                    WHEN type IN ('collection', 'deposit') OR effect = 'credit' THEN account ELSE {outside} END
                AND credited.name = CASE WHEN purpose = 'fee' THEN account
                    WHEN type IN ('collection', 'deposit') OR effect = 'credit' THEN {outside} ELSE account END)
            AND (credited.name <> CASE
                    WHEN purpose = 'fee' THEN 'fees'
                    WHEN purpose = 'shortfall' OR effect = 'credit' THEN account
                    WHEN type = 'correction' THEN {outside}
                    WHEN type IN ('collection', 'deposit') THEN account
                    WHEN type = 'transfer' THEN to_phone_number
                    WHEN type = 'settlement' THEN 'bank'
                    -- What goes out from another account than expected is released, and moved there.
                    WHEN moved.kind IN ('hold', 'void') AND credited.kind = 'provider' THEN credited.name
                    ELSE 'provider:' || provider_account END
                OR debited.name <> CASE
                        WHEN purpose = 'fee' THEN account
                        WHEN purpose = 'shortfall' THEN 'shortfall'
                        WHEN effect = 'credit' THEN {outside}
                        WHEN type = 'collection' THEN 'provider:' || provider_account
                        WHEN type = 'deposit' AND substr(reference, 1, 14) = 'bank/returned/' THEN 'bank'
                        WHEN type = 'deposit' THEN 'deposits'
                        ELSE account END)""",
    "has a status that contradicts its transfers": """
        WITH legs AS (
            SELECT transaction_id, purpose,
                sum(CASE WHEN kind IN ('move', 'post') THEN amount_cents ELSE 0 END) AS moved,
                sum(CASE kind WHEN 'hold' THEN amount_cents WHEN 'move' THEN 0 ELSE -amount_cents END) AS held
            FROM ledger_transfers WHERE transaction_id > :low AND transaction_id <= :high
            GROUP BY transaction_id, purpose
        ), promised AS (
            SELECT id, 'amount' AS purpose, type, status, {is_given_back} AS is_given_back, amount_cents AS cents
            FROM transactions AS paid WHERE id > :low AND id <= :high
            UNION ALL
            SELECT id, 'fee', type, status, {is_given_back}, fee_cents
            FROM transactions AS paid WHERE id > :low AND id <= :high
        )
        SELECT id FROM promised LEFT JOIN legs ON transaction_id = id AND legs.purpose = promised.purpose
        WHERE coalesce(moved, 0) <> CASE WHEN is_given_back THEN 2 * cents
                WHEN status IN ('succeeded', 'reversed') THEN cents ELSE 0 END
            OR coalesce(held, 0) <> CASE WHEN type IN ('disbursement', 'refund', 'settlement')
                AND status NOT IN ('succeeded', 'reversed', 'failed') THEN cents ELSE 0 END""",
    "is a refund of something else than a collection of its client that succeeded": """
        SELECT refund.id FROM transactions AS refund LEFT JOIN transactions AS original
            ON original.id = refund.refund_of AND original.client_id = refund.client_id
                AND original.type = 'collection' AND original.status IN ('succeeded', 'reversed')
                AND (original.phone_number = refund.phone_number OR refund.corrects IS NOT NULL)
        WHERE refund.id > :low AND refund.id <= :high AND original.id IS NULL
            AND (refund.type = 'refund' OR refund.refund_of IS NOT NULL)""",
    # Not as a join: PostgreSQL expects one transaction, and would compute all sums of the range again for each. A late
    # refund has left after its provider had reported its failure twice: the books say what moved, and a review told it.
    "has refunds that exceed it": """
        SELECT id FROM transactions AS refunded WHERE id > :low AND id <= :high AND amount_cents < (
            SELECT sum(amount_cents) FROM transactions
            WHERE refund_of = refunded.id AND type = 'refund' AND NOT late
                AND (status NOT IN ('failed', 'reversed') OR due_at IS NOT NULL))""",
    "is reversed without refunds of all of it, or has them and is not reversed": """
        SELECT id FROM transactions AS paid WHERE id > :low AND id <= :high
            AND type <> 'settlement' AND NOT {is_given_back}
            AND (status = 'reversed') <> (amount_cents <= coalesce((
                SELECT sum(amount_cents) FROM transactions
                WHERE refund_of = paid.id AND status = 'succeeded'), 0))""",
    "is reversed without a deposit of what the bank sent back, or has one and is not reversed": """
        SELECT id FROM transactions AS settled WHERE id > :low AND id <= :high AND type = 'settlement'
            AND (status = 'reversed') <> EXISTS (
                SELECT 1 FROM transactions AS returned WHERE returned.client_id = settled.client_id
                    AND returned.reference = 'bank/returned/' || CAST(settled.id AS text)
                    AND returned.type = 'deposit' AND returned.status = 'succeeded'
                    AND returned.amount_cents = settled.amount_cents)""",
    "returns no settlement of its client": """
        SELECT id FROM transactions AS returned WHERE id > :low AND id <= :high
            AND type = 'deposit' AND substr(reference, 1, 14) = 'bank/returned/' AND NOT EXISTS (
                SELECT 1 FROM transactions AS settled
                WHERE settled.client_id = returned.client_id AND settled.type = 'settlement'
                    AND CAST(settled.id AS text) = substr(returned.reference, 15))""",
    "has an idempotency key that is bound to another one": """
        SELECT id FROM transactions JOIN idempotency_keys
            ON idempotency_keys.client_id = transactions.client_id AND key = idempotency_key
        WHERE id > :low AND id <= :high AND transaction_id <> id""",
    "has an idempotency key that is bound to none": """
        SELECT id FROM transactions AS named WHERE id > :low AND id <= :high AND idempotency_key IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM idempotency_keys
                WHERE idempotency_keys.client_id = named.client_id AND key = idempotency_key)""",
    "has a lease or a due time far ahead": """
        SELECT id FROM transactions WHERE id > :low AND id <= :high
            AND (leased_until > :latest_lease OR due_at > :latest_due)
            AND NOT (type = 'settlement' AND asked_at IS NULL AND status IN ('created', 'submitted')
                AND due_at = '9999-01-01T00:00:00.000Z' AND leased_until IS NULL)""",
    "is complete and due again": """
        SELECT id FROM transactions WHERE id > :low AND id <= :high
            AND status IN ('succeeded', 'reversed') AND due_at IS NOT NULL""",
    # A payment that its provider did not find is ambiguous, and about to be sent again, at most twice.
    "was answered by its provider and never sent": """
        SELECT id FROM transactions WHERE id > :low AND id <= :high
            AND status IN ('pending', 'ambiguous') AND asked_at IS NULL
            AND NOT (status = 'ambiguous' AND ask_attempts IN (1, 2))""",
    "is unfinished without a due time or an open review": """
        SELECT id FROM transactions WHERE id > :low AND id <= :high
            AND status NOT IN ('succeeded', 'reversed', 'failed') AND due_at IS NULL
            AND (review_opened_at IS NULL OR review_closed_at IS NOT NULL)""",
    # What fills a shortfall moves nowhere outside.
    "is a correction without a movement of its own, or without operators": """
        SELECT id FROM transactions AS paid WHERE id > :low AND id <= :high AND type = 'correction' AND NOT EXISTS (
            SELECT 1 FROM movement_uses AS used JOIN movements AS moved ON moved.id = used.movement_id
            WHERE used.transaction_id = paid.id AND used.kind = 'correction' AND used.decided_by IS NOT NULL
                AND moved.account = coalesce(paid.provider_account, 'bank') AND moved.amount_cents = paid.amount_cents
                AND (moved.direction = 'in') = (effect = 'credit'))
            AND NOT (provider IS NULL AND effect = 'debit' AND substr(reference, 1, 5) = 'fill/')""",
    "came from a payer without a movement of its own": """
        SELECT id FROM transactions AS paid WHERE id > :low AND id <= :high AND origin = 'payer' AND NOT EXISTS (
            SELECT 1 FROM movement_uses AS used JOIN movements AS moved ON moved.id = used.movement_id
            WHERE used.transaction_id = paid.id AND used.kind = 'payment' AND moved.account = paid.provider_account
                AND moved.direction = 'in' AND moved.amount_cents = paid.amount_cents)""",
    # A payment that operators found to be other money under the same receipt has a movement without a receipt.
    "has the receipt of another payment that was credited": """
        SELECT paid.id FROM transactions AS paid JOIN transactions AS other
            ON other.provider_transaction_id IN (paid.provider_transaction_id, paid.provider_receipt)
                AND other.provider_account = paid.provider_account
                AND other.type = 'collection' AND other.id <> paid.id AND other.status IN ('succeeded', 'reversed')
                AND coalesce(other.same_money_as, other.id) <> paid.id
                AND other.released_at IS NULL AND paid.released_at IS NULL
        WHERE paid.id > :low AND paid.id <= :high AND paid.type = 'collection'
            AND paid.status IN ('succeeded', 'reversed') AND NOT EXISTS (SELECT 1 FROM movements
                WHERE transaction_id IN (paid.id, other.id) AND receipt IS NULL)""",
    "has a receipt of which operators must say whether it is one payment or two": """
        SELECT id FROM transactions WHERE id > :low AND id <= :high AND contested_id IS NOT NULL
            AND review_opened_at IS NOT NULL AND review_closed_at IS NULL
        UNION SELECT contested_id FROM transactions WHERE contested_id > :low AND contested_id <= :high
            AND review_opened_at IS NOT NULL AND review_closed_at IS NULL""",
    # A payment that was given back names the one that has its money since.
    "names another payment as the same money, which does not name it": """
        SELECT paid.id FROM transactions AS paid LEFT JOIN transactions AS other
            ON other.id = paid.same_money_as AND other.client_id = paid.client_id AND other.type = 'collection'
                AND (other.same_money_as = paid.id OR other.released_at IS NOT NULL)
        WHERE paid.id > :low AND paid.id <= :high AND paid.same_money_as IS NOT NULL AND other.id IS NULL""",
    "names a payout that does not have it as a row": """
        SELECT paid.id FROM transactions AS paid
            LEFT JOIN payout_attempts AS made ON made.transaction_id = paid.id AND made.payout_id = paid.payout_id
        WHERE paid.id > :low AND paid.id <= :high AND paid.payout_id IS NOT NULL AND made.payout_id IS NULL""",
    "paid a row of a payout that another one paid too": """
        SELECT paid.id FROM transactions AS paid JOIN payout_attempts AS made ON made.transaction_id = paid.id
            JOIN payout_attempts AS other ON other.payout_id = made.payout_id AND other.line = made.line
                AND other.number < made.number
            JOIN transactions AS earlier ON earlier.id = other.transaction_id
        WHERE paid.id > :low AND paid.id <= :high AND paid.status IN ('succeeded', 'reversed')
            AND earlier.status IN ('succeeded', 'reversed') AND earlier.review_note IS NULL
            AND paid.review_note IS NULL""",
}
# Where a correction, or a deposit that is undone, moves money from or to.
_OUTSIDE = """CASE WHEN type = 'deposit' THEN 'deposits' WHEN provider IS NOT NULL THEN 'provider:' || provider_account
                        WHEN substr(reference, 1, 5) = 'fill/' THEN 'shortfall' ELSE 'bank' END"""
TRANSACTION_RULES = {
    rule: query.replace("{is_given_back}", IS_GIVEN_BACK).replace("{outside}", _OUTSIDE)
    for rule, query in _RULES_OF_TRANSACTIONS.items()
}

MOVEMENT_RULES = {
    "has another use than was written last": """
        SELECT id FROM movements AS moved LEFT JOIN (
            SELECT movement_id, kind, used.transaction_id AS user_id, other_id,
                row_number() OVER (PARTITION BY movement_id ORDER BY used.number DESC) AS place
            FROM movement_uses AS used WHERE movement_id > :low AND movement_id <= :high
        ) AS last ON last.movement_id = moved.id AND place = 1
        WHERE id > :low AND id <= :high
            AND (coalesce(use_kind, 'release') <> CASE WHEN kind <> 'same' THEN kind ELSE 'release' END
                OR (transaction_id IS NULL) <> (user_id IS NULL OR kind = 'release') OR transaction_id <> user_id
                OR coalesce(kind = 'same', false) <> (same_as IS NOT NULL) OR coalesce(same_as <> other_id, false)
                OR (kind = 'returned' AND coalesce(counterpart <> other_id, other_id IS NOT NULL)))""",
    "is given back by a movement that does not match it": """
        SELECT moved.id FROM movements AS moved LEFT JOIN movements AS other
            ON other.id = moved.counterpart AND other.counterpart = moved.id AND other.account = moved.account
                AND other.direction <> moved.direction AND other.amount_cents = moved.amount_cents
        WHERE moved.id > :low AND moved.id <= :high AND moved.counterpart IS NOT NULL AND (
            other.id IS NULL OR NOT EXISTS (SELECT 1 FROM movement_uses
                WHERE (movement_id = moved.id AND other_id = other.id)
                    OR (movement_id = other.id AND other_id = moved.id)))""",
    "is used by a payment that did not move its money": """
        SELECT moved.id FROM movements AS moved LEFT JOIN transactions AS paid
            ON paid.id = moved.transaction_id AND paid.amount_cents = moved.amount_cents
                AND paid.status IN ('succeeded', 'reversed')
                AND coalesce(paid.provider_account, 'bank') = moved.account
                AND (paid.type = 'collection' OR coalesce(paid.effect, '') = 'credit') = (moved.direction = 'in')
        WHERE moved.id > :low AND moved.id <= :high AND moved.transaction_id IS NOT NULL AND paid.id IS NULL""",
    "was ended without a decision of two operators": """
        SELECT movement_id FROM movement_uses WHERE movement_id > :low AND movement_id <= :high
            AND kind IN ('returned', 'own') AND (decided_by IS NULL OR reason IS NULL)
            AND NOT EXISTS (
                SELECT 1 FROM trial_payments AS tried JOIN movements AS moved ON moved.id = tried.movement_id
                WHERE tried.movement_id = movement_uses.movement_id AND tried.amount_cents = moved.amount_cents
            )""",
}

KEY_RULES = {
    "has spent another sum on a day than its payments": """
        WITH paid AS (
            SELECT key_id, {kampala_day} AS day, sum(amount_cents + fee_cents) AS cents FROM transactions
            WHERE key_id > :low AND key_id <= :high AND type IN ('disbursement', 'refund') AND payout_id IS NULL
            GROUP BY 1, 2
        ), held AS (
            SELECT key_id, day, sum(reserved_cents - released_cents) AS cents FROM payout_holds
            WHERE key_id > :low AND key_id <= :high GROUP BY 1, 2
        ), spent AS (
            SELECT key_id, day, sum(cents) AS cents
            FROM (SELECT * FROM paid UNION ALL SELECT * FROM held) AS each_way GROUP BY 1, 2
        ), counted AS (
            SELECT key_id, day, spent_cents AS cents FROM key_spending WHERE key_id > :low AND key_id <= :high
        )
        SELECT key_id FROM (SELECT * FROM spent EXCEPT SELECT * FROM counted) AS uncounted
        UNION SELECT key_id FROM (SELECT * FROM counted EXCEPT SELECT * FROM spent) AS unpaid""",
}

# Names that are used twice, over the whole table: needed only if the unique index is missing.
_TAKEN_TWICE = """
    SELECT id FROM (
        SELECT id, row_number() OVER (PARTITION BY {columns} ORDER BY id) AS place FROM {table} WHERE {condition}
    ) AS named WHERE place > 1"""
NAME_RULES = {
    table: {
        f"has {what} of another one": _TAKEN_TWICE.format(columns=columns, table=table, condition=condition)
        for what, columns, condition in names
    }
    for table, names in {
        "ledger_accounts": [("the name", "client_id, name", "true")],
        "movements": [("the transaction", "transaction_id", "transaction_id IS NOT NULL")],
        "payouts": [("the reference", "client_id, reference", "replaced_by IS NULL AND revoked_at IS NULL")],
        "transactions": [
            ("the reference", "client_id, reference, (type = 'deposit')", "true"),
            ("the idempotency key", "client_id, idempotency_key", "idempotency_key IS NOT NULL"),
            ("the confirmation", "session_id, confirmation", "session_id IS NOT NULL AND confirmation IS NOT NULL"),
            (
                "the provider reference",
                "provider_reference, coalesce(unsent_before, 0)",
                "provider_reference IS NOT NULL",
            ),
        ],
    }.items()
}
