-- Transactions and the ledger.

-- The fill factor leaves space in each page: an update of columns without an index writes the new version of the row
-- there (a HOT update).
CREATE TABLE transactions (
    id uuid PRIMARY KEY,
    client_id uuid NOT NULL REFERENCES clients (id),
    type text NOT NULL CHECK (type IN ('collection', 'disbursement', 'transfer', 'refund', 'deposit', 'settlement', 'correction')),
    status text NOT NULL
        CHECK (status IN ('created', 'submitted', 'pending', 'ambiguous', 'succeeded', 'failed', 'reversed')),
    phone_number text,
    to_phone_number text,
    amount_cents bigint NOT NULL CHECK (amount_cents > 0),
    fee_cents bigint NOT NULL CHECK (fee_cents >= 0),
    currency text NOT NULL CHECK (currency = 'UGX'),
    account text NOT NULL,
    provider text,
    provider_account text,
    provider_reference uuid,
    unsent_before integer CHECK (unsent_before > 0),
    provider_transaction_id text,
    reference text NOT NULL,
    idempotency_key text,
    request_digest text NOT NULL,
    failure_code text,
    late boolean NOT NULL,
    session_id uuid,
    confirmation text,
    refund_of uuid REFERENCES transactions (id),
    description text,
    metadata text,
    callback_url text,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    asked_at timestamptz,
    ask_attempts integer NOT NULL,
    checks integer NOT NULL,
    completed_at timestamptz,
    due_at timestamptz,
    due_source text NOT NULL CHECK (due_source IN ('poll', 'callback')),
    leased_until timestamptz,
    lease_token text,
    review_reason text,
    review_opened_at timestamptz,
    review_closed_at timestamptz,
    review_note text,
    request_id text,
    traceparent text,
    payout_id uuid,
    key_id uuid,
    origin text NOT NULL DEFAULT 'client' CHECK (origin IN ('client', 'ussd', 'payer')),
    same_money_as uuid,
    contested_id uuid,
    user_id uuid,
    menu_id uuid,
    menu_version integer,
    provider_receipt text,
    sent_reference text,
    sent_to text,
    operator text,
    effect text CHECK (effect IN ('credit', 'debit')),
    corrects uuid REFERENCES transactions (id),
    reason text,
    released_at timestamptz,
    CHECK (released_at IS NULL OR status = 'reversed'),
    CHECK ((effect IS NOT NULL) = (type = 'correction')),
    CHECK ((reason IS NOT NULL) = (type = 'correction')),
    CHECK ((provider_account IS NULL) = (provider IS NULL)),
    CHECK ((failure_code IS NOT NULL) = (status = 'failed')),
    CHECK ((completed_at IS NOT NULL) = (status IN ('succeeded', 'failed', 'reversed'))),
    CHECK (due_at IS NOT NULL OR review_opened_at IS NOT NULL OR completed_at IS NOT NULL)
); -- by key
ALTER TABLE transactions SET (fillfactor = 60); -- PostgreSQL
CREATE UNIQUE INDEX transactions_idempotency_key ON transactions (client_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE UNIQUE INDEX transactions_confirmation ON transactions (session_id, confirmation)
    WHERE confirmation IS NOT NULL;
CREATE INDEX transactions_newest ON transactions (client_id, id);
CREATE INDEX transactions_newest_of_type ON transactions (client_id, type, id);
CREATE INDEX transactions_newest_of_status ON transactions (client_id, status, id);
CREATE INDEX transactions_newest_of_phone ON transactions (client_id, phone_number, id);
CREATE INDEX transactions_newest_of_amount ON transactions (client_id, amount_cents, id);
CREATE INDEX transactions_due ON transactions (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX transactions_in_review ON transactions (review_opened_at)
    WHERE review_opened_at IS NOT NULL AND review_closed_at IS NULL;
CREATE INDEX transactions_refunds ON transactions (refund_of) WHERE refund_of IS NOT NULL;
-- The operator names deposits, and clients name all other transactions: the same reference may be used by both.
-- A payment may have the name of one that was never sent: it counts those before it.
CREATE UNIQUE INDEX transactions_provider_reference ON transactions (provider_reference, (coalesce(unsent_before, 0)));
CREATE UNIQUE INDEX transactions_names ON transactions (client_id, reference, (type = 'deposit'));
CREATE INDEX transactions_of_payout ON transactions (client_id, payout_id, id) WHERE payout_id IS NOT NULL;
CREATE INDEX transactions_provider_transaction_id ON transactions (provider_transaction_id, id)
    WHERE provider_transaction_id IS NOT NULL;
CREATE INDEX transactions_released ON transactions (client_id, released_at) WHERE released_at IS NOT NULL;
CREATE INDEX transactions_corrections ON transactions (corrects) WHERE corrects IS NOT NULL;
-- Money that is told without a number may be one of these.
CREATE INDEX transactions_without_receipt ON transactions (provider_account, amount_cents)
    WHERE status IN ('succeeded', 'reversed') AND provider_transaction_id IS NULL AND provider_account IS NOT NULL;
CREATE INDEX transactions_request_id ON transactions (request_id, id) WHERE request_id IS NOT NULL;
CREATE INDEX transactions_final ON transactions (client_id, completed_at) WHERE completed_at IS NOT NULL;
CREATE INDEX transactions_late ON transactions (client_id, completed_at) WHERE late;
CREATE INDEX transactions_of_payout_status ON transactions (payout_id, status) WHERE payout_id IS NOT NULL;
CREATE INDEX transactions_contested ON transactions (contested_id) WHERE contested_id IS NOT NULL;
CREATE INDEX transactions_settlements ON transactions (status, id) WHERE type = 'settlement';
CREATE INDEX transactions_provider_receipt ON transactions (provider_receipt, id) WHERE provider_receipt IS NOT NULL;
-- As `gates/likeness.py` asks for a receipt that its provider wrote in another way.
CREATE INDEX transactions_named ON transactions (upper(replace(replace(provider_transaction_id, '-', ''), ' ', '')))
    WHERE provider_transaction_id IS NOT NULL AND status NOT IN ('succeeded', 'reversed');
CREATE INDEX transactions_named_second ON transactions (upper(replace(replace(provider_receipt, '-', ''), ' ', '')))
    WHERE provider_receipt IS NOT NULL AND status NOT IN ('succeeded', 'reversed');
CREATE INDEX transactions_of_key ON transactions (key_id, id)
    WHERE key_id IS NOT NULL AND type IN ('disbursement', 'refund');

-- What was paid with a key on a day of Kampala: disbursements, refunds and reservations of payouts, with their fees. A
-- payment that fails later stays counted; what a payout releases unsent does not. The key may be deleted.
CREATE TABLE key_spending (
    key_id uuid NOT NULL,
    day text NOT NULL,
    spent_cents bigint NOT NULL CHECK (spent_cents >= 0),
    PRIMARY KEY (key_id, day)
); -- by key
ALTER TABLE key_spending SET (fillfactor = 50); -- PostgreSQL

CREATE TABLE transaction_events (
    transaction_id uuid NOT NULL REFERENCES transactions (id),
    sequence integer NOT NULL CHECK (sequence > 0),
    client_id uuid NOT NULL,
    status text NOT NULL,
    source text NOT NULL CHECK (source IN ('submit', 'callback', 'poll', 'operator')),
    detail text,
    created_at timestamptz NOT NULL,
    provider_call text,
    PRIMARY KEY (transaction_id, sequence)
); -- by key

-- Keys of transactions and keys of repeats meet in one primary key: two simultaneous calls cannot bind one key twice.
CREATE TABLE idempotency_keys (
    client_id uuid NOT NULL REFERENCES clients (id),
    key text NOT NULL,
    transaction_id uuid NOT NULL REFERENCES transactions (id),
    created_at timestamptz NOT NULL,
    PRIMARY KEY (client_id, key)
); -- by key

CREATE TABLE fees (
    client_id uuid NOT NULL REFERENCES clients (id),
    type text NOT NULL CHECK (type IN ('collection', 'disbursement', 'transfer', 'refund')),
    fixed_cents bigint NOT NULL CHECK (fixed_cents >= 0),
    share_basis_points integer NOT NULL CHECK (share_basis_points BETWEEN 0 AND 10000),
    PRIMARY KEY (client_id, type)
); -- by key

-- Every account belongs to a client, and each client's ledger balances by itself.
CREATE TABLE ledger_accounts (
    id uuid PRIMARY KEY,
    client_id uuid NOT NULL REFERENCES clients (id),
    name text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('main', 'subscriber', 'provider', 'fees', 'deposits', 'bank', 'shortfall')),
    currency text NOT NULL CHECK (currency = 'UGX'),
    balance_cents bigint NOT NULL,
    reserved_cents bigint NOT NULL CONSTRAINT no_negative_reservation CHECK (reserved_cents >= 0),
    held_cents bigint NOT NULL DEFAULT 0 CHECK (held_cents >= 0),
    created_at timestamptz NOT NULL,
    last_transfer integer NOT NULL DEFAULT 0, -- SQLite
    UNIQUE (client_id, name),
    CHECK (kind = CASE substr(name, 1, 1) WHEN '+' THEN 'subscriber' ELSE
        CASE substr(name, 1, 9) WHEN 'provider:' THEN 'provider' ELSE name END END),
    CONSTRAINT no_overdraft CHECK (balance_cents - reserved_cents >= 0 OR kind IN ('provider', 'deposits', 'shortfall'))
); -- by key

-- PostgreSQL has no foreign keys to accounts and holds: for every transfer the triggers read both accounts and the
-- hold, refuse a missing one, and never allow a deletion. A foreign key would read and lock each row a second time. In
-- SQLite `position` has no gaps: an account names the transfer that changed it last.
CREATE TABLE ledger_transfers (
    position integer PRIMARY KEY, -- SQLite
    id uuid NOT NULL UNIQUE, -- SQLite
    id uuid PRIMARY KEY, -- PostgreSQL
    client_id uuid NOT NULL REFERENCES clients (id), -- SQLite
    client_id uuid NOT NULL, -- PostgreSQL
    transaction_id uuid NOT NULL REFERENCES transactions (id),
    kind text NOT NULL CHECK (kind IN ('move', 'hold', 'post', 'void')),
    purpose text NOT NULL CHECK (purpose IN ('amount', 'fee', 'shortfall')),
    debit_account_id uuid NOT NULL REFERENCES ledger_accounts (id), -- SQLite
    debit_account_id uuid NOT NULL, -- PostgreSQL
    credit_account_id uuid NOT NULL REFERENCES ledger_accounts (id), -- SQLite
    credit_account_id uuid NOT NULL, -- PostgreSQL
    amount_cents bigint NOT NULL CHECK (amount_cents > 0),
    hold_id uuid UNIQUE REFERENCES ledger_transfers (id), -- SQLite
    hold_id uuid, -- PostgreSQL
    created_at timestamptz NOT NULL,
    CHECK (debit_account_id <> credit_account_id),
    CHECK ((hold_id IS NOT NULL) = (kind IN ('post', 'void')))
);
CREATE INDEX ledger_transfers_debited ON ledger_transfers (debit_account_id);
-- A hold changes nothing on the account that it would credit.
CREATE INDEX ledger_transfers_credited ON ledger_transfers (credit_account_id) WHERE kind IN ('move', 'post');
-- A transaction holds, voids and moves each of its sums at most once, and moves it back once. A post counts as a move.
CREATE UNIQUE INDEX ledger_transfers_effects_each_way ON ledger_transfers (
    transaction_id, purpose, (CASE kind WHEN 'post' THEN 'move' ELSE kind END), (debit_account_id < credit_account_id));
CREATE UNIQUE INDEX ledger_transfers_ends ON ledger_transfers (hold_id) WHERE hold_id IS NOT NULL; -- PostgreSQL

-- No foreign keys and no checks: only triggers write rows, for a transfer and accounts that they have just read, and
-- each foreign key would cost every payment a lock. `posted_us` is the service's time in microseconds since 1970.
CREATE TABLE ledger_entries (
    account_id uuid NOT NULL,
    posted_us bigint NOT NULL,
    transfer_id uuid NOT NULL,
    balance_cents bigint NOT NULL,
    PRIMARY KEY (account_id, posted_us)
); -- by key

-- Proves that payments are still named under the same key as before.
CREATE TABLE reference_key (
    id integer PRIMARY KEY CHECK (id = 1),
    check_value text NOT NULL,
    credited_in_sandbox boolean NOT NULL DEFAULT false
);

-- A digest for each past day of payments: it shows when a payment was removed with its whole history.
CREATE TABLE history_digests (
    id uuid PRIMARY KEY,
    day text NOT NULL,
    first_day text NOT NULL,
    clients text NOT NULL,
    digest text NOT NULL
); -- by key

-- Where a client's money is settled to, and on which terms. Unconfirmed accounts get nothing.
CREATE TABLE bank_accounts (
    client_id uuid PRIMARY KEY REFERENCES clients (id),
    bank text,
    number text,
    name text,
    stated_at timestamptz,
    confirmed_by text,
    confirmed_at timestamptz,
    keep_cents bigint CHECK (keep_cents >= 0),
    minimum_cents bigint CHECK (minimum_cents >= 0),
    CHECK (confirmed_at IS NULL OR (bank IS NOT NULL AND number IS NOT NULL AND name IS NOT NULL)),
    CHECK ((confirmed_at IS NULL) = (confirmed_by IS NULL))
); -- by key

-- The letters with which the payment codes of a client begin. No prefix begins another, so each code has one owner.
CREATE TABLE payment_code_prefixes (
    client_id uuid PRIMARY KEY REFERENCES clients (id),
    prefix text NOT NULL UNIQUE
); -- by key

-- What payers type as the reason of a payment: upper-case letters and digits, beginning with the client's prefix.
CREATE TABLE payment_codes (
    id uuid PRIMARY KEY,
    client_id uuid NOT NULL REFERENCES clients (id),
    code text NOT NULL UNIQUE,
    description text NOT NULL,
    account text NOT NULL,
    account_since timestamptz NOT NULL,
    amount_cents bigint CHECK (amount_cents > 0),
    min_amount_cents bigint CHECK (min_amount_cents > 0),
    max_amount_cents bigint CHECK (max_amount_cents > 0),
    expires_at timestamptz,
    single_use boolean NOT NULL,
    used_at timestamptz,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL
); -- by key
CREATE INDEX payment_codes_newest ON payment_codes (client_id, id);

-- Money that moved outside and that something else than our own payment told us of. `use_kind`, `transaction_id`,
-- `counterpart` and `same_as` are those of the last uses; only the trigger of `movement_uses` writes them. A use is written before its
-- transaction.
CREATE TABLE movements (
    id uuid PRIMARY KEY,
    account text NOT NULL,
    direction text NOT NULL CHECK (direction IN ('in', 'out')),
    amount_cents bigint NOT NULL CHECK (amount_cents > 0),
    at timestamptz,
    receipt text,
    code text,
    phone_number text,
    name text,
    told text NOT NULL,
    other_amount_cents bigint CHECK (other_amount_cents > 0),
    held_because text,
    waits_for uuid REFERENCES transactions (id),
    beside text NOT NULL,
    same_as uuid REFERENCES movements (id),
    use_kind text CHECK (use_kind IN ('payment', 'correction', 'returned', 'own')),
    transaction_id uuid UNIQUE REFERENCES transactions (id) DEFERRABLE INITIALLY DEFERRED,
    counterpart uuid REFERENCES movements (id),
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    CHECK (counterpart IS NULL OR coalesce(use_kind, '') = 'returned'),
    CHECK ((transaction_id IS NOT NULL) = (coalesce(use_kind, '') IN ('payment', 'correction'))),
    CHECK (same_as IS NULL OR use_kind IS NULL)
); -- by key
CREATE INDEX movements_unexplained ON movements (id)
    WHERE (use_kind IS NULL OR use_kind = 'returned') AND counterpart IS NULL AND same_as IS NULL AND told <> '[]';
CREATE UNIQUE INDEX movements_pairs ON movements (counterpart) WHERE counterpart IS NOT NULL;
CREATE INDEX movements_moved ON movements (account, at);
CREATE INDEX movements_alike ON movements (account, direction, amount_cents);
CREATE INDEX movements_of_phone ON movements (phone_number) WHERE phone_number IS NOT NULL;
CREATE INDEX movements_waiting ON movements (waits_for) WHERE waits_for IS NOT NULL;

-- What a movement is used for from a moment on, or its release. `other_id` is the returned movement that it gives back, or
-- the movement that it proved to be.
CREATE TABLE movement_uses (
    id uuid PRIMARY KEY,
    movement_id uuid NOT NULL REFERENCES movements (id),
    number integer NOT NULL CHECK (number > 0),
    kind text NOT NULL CHECK (kind IN ('payment', 'correction', 'returned', 'own', 'same', 'release')),
    transaction_id uuid REFERENCES transactions (id) DEFERRABLE INITIALLY DEFERRED,
    other_id uuid REFERENCES movements (id),
    decided_by text,
    reason text,
    created_at timestamptz NOT NULL,
    CHECK (CASE kind WHEN 'same' THEN other_id IS NOT NULL WHEN 'returned' THEN true ELSE other_id IS NULL END),
    UNIQUE (movement_id, number)
); -- by key
CREATE INDEX movement_uses_of_transaction ON movement_uses (transaction_id) WHERE transaction_id IS NOT NULL;

-- A receipt is money once. It belongs to a payment of ours, which is its own movement, or to a movement.
CREATE TABLE movement_receipts (
    account text NOT NULL,
    direction text NOT NULL CHECK (direction IN ('in', 'out')),
    receipt text NOT NULL,
    written text NOT NULL,
    transaction_id uuid REFERENCES transactions (id),
    movement_id uuid REFERENCES movements (id),
    PRIMARY KEY (receipt, account, direction),
    CHECK (transaction_id IS NULL OR movement_id IS NULL)
); -- by key
CREATE INDEX movement_receipts_of_movement ON movement_receipts (movement_id) WHERE movement_id IS NOT NULL;
