-- Payouts, providers, and the comparison with their statements.

CREATE TABLE payouts (
    id uuid PRIMARY KEY,
    client_id uuid NOT NULL REFERENCES clients (id),
    reference text NOT NULL,
    description text,
    status text NOT NULL CHECK (status IN ('draft', 'approved', 'running', 'completed', 'cancelled')),
    request_digest text NOT NULL,
    item_count integer NOT NULL CHECK (item_count > 0),
    ready_count integer NOT NULL CHECK (ready_count >= 0),
    invalid_count integer NOT NULL CHECK (invalid_count >= 0),
    total_amount_cents bigint NOT NULL CHECK (total_amount_cents >= 0),
    total_fee_cents bigint NOT NULL CHECK (total_fee_cents >= 0),
    created_by uuid NOT NULL,
    approved_by uuid,
    request_id text,
    approval_request_id text,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    approved_at timestamptz,
    cancelled_at timestamptz,
    completed_at timestamptz,
    due_at timestamptz,
    leased_until timestamptz,
    lease_token text,
    people text NOT NULL,
    items_digest text NOT NULL,
    draft_digest text,
    approval_digest text,
    replaced_by uuid REFERENCES payouts (id) DEFERRABLE INITIALLY DEFERRED,
    send_at timestamptz,
    reserved_at timestamptz,
    needs_money_at timestamptz,
    key_id uuid,
    traceparent text,
    approved_fee_cents bigint CHECK (approved_fee_cents >= 0),
    withdrawn_at timestamptz,
    withdrawal_reason text,
    revoked_at timestamptz CHECK (revoked_at IS NULL OR status = 'cancelled'),
    cancel_note text,
    key_limit_cents bigint,
    operator text,
    counted_key_id uuid,
    held_cents bigint NOT NULL CHECK (held_cents >= 0),
    round integer NOT NULL CHECK (round > 0),
    round_by uuid NOT NULL,
    round_people text NOT NULL,
    round_count integer NOT NULL CHECK (round_count >= 0),
    round_amount_cents bigint NOT NULL CHECK (round_amount_cents >= 0),
    round_fee_cents bigint NOT NULL CHECK (round_fee_cents >= 0),
    CHECK (ready_count + invalid_count = item_count),
    CHECK ((approved_by IS NULL) = (approved_at IS NULL)),
    CHECK (approved_by IS NULL OR approved_by NOT IN (created_by, round_by)),
    CHECK (approved_at IS NULL OR status <> 'draft'),
    CHECK (approved_at IS NOT NULL OR status IN ('draft', 'cancelled') OR round > 1),
    CHECK ((cancelled_at IS NOT NULL) = (status = 'cancelled')),
    CHECK (completed_at IS NOT NULL OR status <> 'completed'),
    CHECK (due_at IS NOT NULL OR approved_at IS NULL OR completed_at IS NOT NULL),
    CHECK (replaced_by IS NULL OR (status = 'cancelled' AND approved_at IS NULL)),
    CHECK (approved_at IS NOT NULL OR (reserved_at IS NULL AND needs_money_at IS NULL AND key_id IS NULL)),
    CHECK (reserved_at IS NOT NULL OR (held_cents = 0 AND status <> 'running' AND (status <> 'completed' OR round > 1)
        AND (approved_at IS NULL OR send_at IS NOT NULL))),
    CHECK (key_id IS NULL OR key_id = approved_by)
); -- by key
CREATE UNIQUE INDEX payouts_reference ON payouts (client_id, reference)
    WHERE replaced_by IS NULL AND revoked_at IS NULL;
-- Lists and the search find revoked drafts by their reference, too.
CREATE INDEX payouts_named ON payouts (client_id, reference) WHERE replaced_by IS NULL;
CREATE INDEX payouts_open ON payouts (client_id) WHERE status IN ('draft', 'approved', 'running');
CREATE INDEX payouts_holding ON payouts (client_id) WHERE held_cents > 0;
CREATE INDEX payouts_newest ON payouts (client_id, id);
CREATE INDEX payouts_due ON payouts (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE payout_items (
    payout_id uuid NOT NULL REFERENCES payouts (id),
    line integer NOT NULL CHECK (line > 0),
    phone_number text,
    amount_cents bigint,
    amount_text text,
    fee_cents bigint,
    provider text,
    reference text,
    description text,
    name text,
    name_match text CHECK (name_match IN ('same', 'similar', 'different', 'unknown')),
    registered_name text,
    is_ready boolean NOT NULL,
    problems text,
    transaction_id uuid REFERENCES transactions (id),
    metadata text,
    round integer NOT NULL CHECK (round > 0),
    attempt integer NOT NULL CHECK (attempt > 0),
    waits boolean NOT NULL,
    PRIMARY KEY (payout_id, line),
    CHECK ((problems IS NULL) = is_ready),
    CHECK (amount_text IS NULL OR amount_cents IS NULL),
    CHECK (NOT is_ready OR (phone_number IS NOT NULL AND amount_cents > 0 AND fee_cents >= 0
        AND provider IS NOT NULL AND reference IS NOT NULL)),
    CHECK (is_ready OR (transaction_id IS NULL AND NOT waits))
); -- by key
CREATE UNIQUE INDEX payout_items_transaction ON payout_items (transaction_id) WHERE transaction_id IS NOT NULL;
CREATE INDEX payout_items_named ON payout_items (payout_id, name_match, line) WHERE name IS NOT NULL AND is_ready;

CREATE INDEX payout_items_waiting ON payout_items (payout_id, provider, line) WHERE waits;

CREATE TABLE payout_attempts (
    payout_id uuid NOT NULL REFERENCES payouts (id),
    line integer NOT NULL,
    number integer NOT NULL CHECK (number > 0),
    round integer NOT NULL CHECK (round > 0),
    transaction_id uuid NOT NULL UNIQUE REFERENCES transactions (id),
    PRIMARY KEY (payout_id, line, number)
); -- by key

-- What was reserved for a round, and what of it was released unsent.
CREATE TABLE payout_holds (
    payout_id uuid NOT NULL REFERENCES payouts (id),
    number integer NOT NULL CHECK (number > 0),
    round integer NOT NULL CHECK (round > 0),
    key_id uuid,
    day text NOT NULL,
    reserved_cents bigint NOT NULL CHECK (reserved_cents > 0),
    released_cents bigint NOT NULL CHECK (released_cents BETWEEN 0 AND reserved_cents),
    PRIMARY KEY (payout_id, number)
); -- by key
CREATE INDEX payout_holds_of_key ON payout_holds (key_id, day) WHERE key_id IS NOT NULL;

CREATE TABLE payout_approvals (
    id uuid PRIMARY KEY,
    payout_id uuid NOT NULL REFERENCES payouts (id),
    round integer NOT NULL CHECK (round > 0),
    made_by uuid NOT NULL,
    people text NOT NULL,
    key_id uuid,
    operators text,
    note text,
    total_fee_cents bigint CHECK (total_fee_cents >= 0),
    created_at timestamptz NOT NULL,
    withdrawn_at timestamptz,
    digest text NOT NULL
); -- by key
CREATE INDEX payout_approvals_of_payout ON payout_approvals (payout_id, id);
CREATE INDEX payout_approvals_standing ON payout_approvals (made_by) WHERE withdrawn_at IS NULL;

CREATE TABLE approval_rules (
    client_id uuid PRIMARY KEY REFERENCES clients (id),
    rules text NOT NULL,
    proposed text,
    proposed_by uuid,
    updated_at timestamptz NOT NULL,
    digest text NOT NULL,
    CHECK ((proposed IS NULL) = (proposed_by IS NULL))
); -- by key

CREATE TABLE provider_switches (
    connection text PRIMARY KEY,
    is_off boolean NOT NULL,
    reason text NOT NULL,
    changed_at timestamptz NOT NULL
);

CREATE TABLE provider_places (
    provider text NOT NULL,
    direction text NOT NULL,
    place text NOT NULL,
    changed_at timestamptz NOT NULL,
    PRIMARY KEY (provider, direction)
);

CREATE TABLE client_connections (
    client_id uuid NOT NULL REFERENCES clients (id),
    provider text NOT NULL,
    connection text UNIQUE,
    changed_at timestamptz NOT NULL,
    PRIMARY KEY (client_id, provider)
);

CREATE TABLE trial_payments (
    provider_reference uuid PRIMARY KEY,
    connection text NOT NULL,
    direction text NOT NULL,
    amount_cents bigint NOT NULL CHECK (amount_cents > 0),
    sent_to text NOT NULL,
    sent_at timestamptz NOT NULL,
    callback_at timestamptz,
    movement_id uuid UNIQUE
); -- by key

CREATE TABLE provider_accounts (
    account text PRIMARY KEY,
    provider text NOT NULL,
    amount_cents bigint,
    read_at timestamptz,
    asked_at timestamptz NOT NULL,
    low_since timestamptz,
    away_since timestamptz
);

-- What each worker counted of its calls in a quarter of an hour.
CREATE TABLE provider_calls (
    began_at timestamptz NOT NULL,
    provider text NOT NULL,
    worker_id text NOT NULL,
    answered_count integer NOT NULL,
    failed_count integer NOT NULL CHECK (failed_count >= 0 AND failed_count <= answered_count),
    unanswered_count integer NOT NULL CHECK (unanswered_count >= 0),
    took text NOT NULL,
    PRIMARY KEY (began_at, provider, worker_id)
); -- by key

CREATE TABLE subscriber_names (
    provider text NOT NULL,
    phone_number text NOT NULL,
    name text,
    asked_at timestamptz NOT NULL,
    PRIMARY KEY (provider, phone_number)
); -- by key
CREATE INDEX subscriber_names_oldest ON subscriber_names (asked_at);

CREATE TABLE provider_statements (
    id uuid PRIMARY KEY,
    account text NOT NULL,
    digest text NOT NULL,
    file_name text NOT NULL,
    first_at timestamptz NOT NULL,
    last_at timestamptz NOT NULL,
    counts text NOT NULL,
    ours_cents bigint NOT NULL,
    theirs_cents bigint NOT NULL,
    imported_at timestamptz NOT NULL,
    difference_count integer NOT NULL,
    state text NOT NULL DEFAULT 'stored' CHECK (state IN ('importing', 'stored', 'removed')),
    UNIQUE (account, digest)
);
CREATE INDEX provider_statements_unstored ON provider_statements (id) WHERE state <> 'stored';

CREATE TABLE statement_differences (
    id uuid PRIMARY KEY,
    key text NOT NULL UNIQUE,
    account text NOT NULL,
    statement_id uuid NOT NULL REFERENCES provider_statements (id),
    line integer,
    verdict text NOT NULL
        CHECK (verdict IN ('amount_differs', 'status_differs', 'not_ours', 'not_theirs', 'reversal')),
    provider_id text,
    reference text,
    transaction_id uuid REFERENCES transactions (id),
    movement_id uuid REFERENCES movements (id),
    moved_cents bigint NOT NULL,
    ours text,
    theirs text,
    dated text,
    party text,
    opened_at timestamptz NOT NULL,
    ended_at timestamptz,
    ended_by text,
    reason text,
    CHECK ((ended_at IS NOT NULL) = (reason IS NOT NULL) AND (ended_at IS NOT NULL) = (ended_by IS NOT NULL))
);
CREATE INDEX statement_differences_open ON statement_differences (id) WHERE ended_at IS NULL AND movement_id IS NULL;
CREATE INDEX statement_differences_of_transaction ON statement_differences (transaction_id)
    WHERE transaction_id IS NOT NULL;
CREATE INDEX statement_differences_of_movement ON statement_differences (movement_id) WHERE movement_id IS NOT NULL;

CREATE TABLE differences_in_statements (
    id uuid PRIMARY KEY,
    statement_id uuid NOT NULL REFERENCES provider_statements (id),
    line integer,
    difference_id uuid NOT NULL REFERENCES statement_differences (id),
    at timestamptz NOT NULL
);
CREATE INDEX differences_in_statements_in_order ON differences_in_statements (statement_id, id);
CREATE INDEX differences_in_statements_of_difference ON differences_in_statements (difference_id);

-- Days of accounts at providers that an operator has closed: the figures of the moment, which never change.
CREATE TABLE closed_days (
    account text NOT NULL,
    day text NOT NULL,
    statement_id uuid REFERENCES provider_statements (id),
    ours_cents bigint NOT NULL,
    theirs_cents bigint NOT NULL,
    bridge text NOT NULL,
    closed_by text NOT NULL,
    closed_at timestamptz NOT NULL,
    confirmed_by text,
    PRIMARY KEY (account, day)
); -- by key

-- What statements cover, and their lines by day.
CREATE TABLE statement_coverages (
    id uuid PRIMARY KEY,
    statement_id uuid NOT NULL REFERENCES provider_statements (id),
    account text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('balance', 'lines', 'stated')),
    first_at timestamptz NOT NULL,
    last_at timestamptz NOT NULL,
    opening_cents bigint,
    closing_cents bigint,
    stated_by text,
    CHECK ((kind = 'balance') = (opening_cents IS NOT NULL AND closing_cents IS NOT NULL)),
    CHECK ((kind = 'stated') = (stated_by IS NOT NULL)),
    CHECK (first_at <= last_at)
);
CREATE INDEX statement_coverages_by_end ON statement_coverages (account, last_at);
CREATE INDEX statement_coverages_of_statement ON statement_coverages (statement_id);

CREATE TABLE statement_days (
    id uuid PRIMARY KEY,
    statement_id uuid NOT NULL REFERENCES provider_statements (id),
    day text NOT NULL,
    line_count integer NOT NULL CHECK (line_count > 0),
    lines bytea NOT NULL
);
CREATE INDEX statement_days_of_statement ON statement_days (statement_id, day);
CREATE INDEX statement_days_of_day ON statement_days (day);

-- What closed days were computed from.
CREATE TABLE day_proofs (
    id uuid PRIMARY KEY,
    account text NOT NULL,
    day text NOT NULL,
    statements text NOT NULL,
    first_at timestamptz,
    last_at timestamptz,
    content text NOT NULL,
    digest text NOT NULL,
    UNIQUE (account, day),
    FOREIGN KEY (account, day) REFERENCES closed_days (account, day),
    CHECK ((first_at IS NULL) = (last_at IS NULL))
);

-- Layouts of statements that operators kept: what the columns hold, by the provider and the headings.
CREATE TABLE statement_layouts (
    id uuid PRIMARY KEY,
    provider text NOT NULL,
    key text NOT NULL,
    headings text NOT NULL,
    columns text NOT NULL,
    all_in boolean NOT NULL,
    our_number text,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL,
    UNIQUE (provider, key)
);
