-- Payouts, providers, and the comparison with their statements.

CREATE TABLE payouts (
    id uuid PRIMARY KEY, -- fixed
    client_id uuid NOT NULL REFERENCES clients (id), -- fixed
    reference text NOT NULL, -- fixed
    description text, -- fixed
    status text NOT NULL CHECK (status IN ('draft', 'approved', 'running', 'completed', 'cancelled')),
    request_digest text NOT NULL, -- fixed
    item_count integer NOT NULL CHECK (item_count > 0), -- fixed
    ready_count integer NOT NULL CHECK (ready_count >= 0), -- fixed
    invalid_count integer NOT NULL CHECK (invalid_count >= 0), -- fixed
    total_amount_cents bigint NOT NULL CHECK (total_amount_cents >= 0), -- fixed
    total_fee_cents bigint NOT NULL CHECK (total_fee_cents >= 0),
    created_by uuid NOT NULL, -- fixed
    approved_by uuid,
    request_id text,
    created_at timestamptz NOT NULL, -- fixed
    updated_at timestamptz NOT NULL,
    approved_at timestamptz,
    cancelled_at timestamptz,
    completed_at timestamptz,
    due_at timestamptz,
    leased_until timestamptz,
    lease_token text,
    people text, -- fixed
    items_digest text,
    draft_digest text,
    approval_digest text,
    replaced_by uuid REFERENCES payouts (id) DEFERRABLE INITIALLY DEFERRED,
    send_at timestamptz, -- fixed
    reserved_at timestamptz,
    needs_money_at timestamptz,
    key_id uuid,
    traceparent text,
    CHECK (ready_count + invalid_count = item_count),
    CHECK ((approved_by IS NULL) = (approved_at IS NULL)),
    CHECK (approved_by IS NULL OR approved_by <> created_by),
    CHECK (approved_at IS NULL OR status <> 'draft'),
    CHECK (approved_at IS NOT NULL OR status IN ('draft', 'cancelled')),
    CHECK ((cancelled_at IS NOT NULL) = (status = 'cancelled')),
    CHECK (completed_at IS NOT NULL OR status <> 'completed'),
    CHECK (due_at IS NOT NULL OR approved_at IS NULL OR completed_at IS NOT NULL),
    CHECK (replaced_by IS NULL OR (status = 'cancelled' AND approved_at IS NULL)),
    CHECK (approved_at IS NOT NULL OR (reserved_at IS NULL AND needs_money_at IS NULL AND key_id IS NULL)),
    CHECK (reserved_at IS NOT NULL OR (status NOT IN ('running', 'completed')
        AND (approved_at IS NULL OR send_at IS NOT NULL))),
    CHECK (key_id IS NULL OR key_id = approved_by)
); -- by key
CREATE UNIQUE INDEX payouts_reference ON payouts (client_id, reference) WHERE replaced_by IS NULL;
CREATE INDEX payouts_newest ON payouts (client_id, id);
CREATE INDEX payouts_due ON payouts (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE payout_items (
    payout_id uuid NOT NULL REFERENCES payouts (id), -- fixed
    line integer NOT NULL CHECK (line > 0), -- fixed
    phone_number text, -- fixed
    amount_cents bigint, -- fixed
    amount_text text, -- fixed
    fee_cents bigint,
    provider text, -- fixed
    reference text, -- fixed
    description text, -- fixed
    name text, -- fixed
    name_match text CHECK (name_match IN ('same', 'similar', 'different', 'unknown')),
    registered_name text,
    is_ready boolean NOT NULL, -- fixed
    problems text, -- fixed
    transaction_id uuid REFERENCES transactions (id),
    PRIMARY KEY (payout_id, line),
    CHECK ((problems IS NULL) = is_ready),
    CHECK (amount_text IS NULL OR amount_cents IS NULL),
    CHECK (NOT is_ready OR (phone_number IS NOT NULL AND amount_cents > 0 AND fee_cents >= 0
        AND provider IS NOT NULL AND reference IS NOT NULL)),
    CHECK (transaction_id IS NULL OR is_ready)
); -- by key
CREATE UNIQUE INDEX payout_items_transaction ON payout_items (transaction_id) WHERE transaction_id IS NOT NULL;
CREATE INDEX payout_items_named ON payout_items (payout_id, name_match, line) WHERE name IS NOT NULL AND is_ready;

CREATE TABLE provider_switches (
    provider text PRIMARY KEY,
    is_off boolean NOT NULL,
    reason text NOT NULL,
    changed_at timestamptz NOT NULL
);

CREATE TABLE provider_floats (
    provider text PRIMARY KEY,
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
    provider text NOT NULL,
    digest text NOT NULL,
    file_name text NOT NULL,
    first_at timestamptz NOT NULL,
    last_at timestamptz NOT NULL,
    counts text NOT NULL,
    ours_cents bigint NOT NULL,
    theirs_cents bigint NOT NULL,
    imported_at timestamptz NOT NULL,
    difference_count integer,
    state text NOT NULL DEFAULT 'stored' CHECK (state IN ('importing', 'stored', 'removed')),
    UNIQUE (provider, digest)
);
CREATE INDEX provider_statements_unstored ON provider_statements (id) WHERE state <> 'stored';

CREATE TABLE statement_differences (
    id uuid PRIMARY KEY,
    key text NOT NULL UNIQUE,
    provider text NOT NULL,
    statement_id uuid NOT NULL REFERENCES provider_statements (id),
    line integer,
    verdict text NOT NULL
        CHECK (verdict IN ('amount_differs', 'status_differs', 'not_ours', 'not_theirs', 'reversal')),
    provider_id text,
    reference text,
    transaction_id uuid REFERENCES transactions (id),
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
CREATE INDEX statement_differences_open ON statement_differences (id) WHERE ended_at IS NULL;

CREATE TABLE differences_in_statements (
    id uuid PRIMARY KEY,
    statement_id uuid NOT NULL REFERENCES provider_statements (id),
    line integer,
    difference_id uuid NOT NULL REFERENCES statement_differences (id)
);
CREATE INDEX differences_in_statements_in_order ON differences_in_statements (statement_id, id);
CREATE INDEX differences_in_statements_of_difference ON differences_in_statements (difference_id);

-- Days of providers that an operator has closed: the figures of the moment, which never change.
CREATE TABLE closed_days (
    provider text NOT NULL,
    day text NOT NULL,
    statement_id uuid REFERENCES provider_statements (id),
    ours_cents bigint NOT NULL,
    theirs_cents bigint NOT NULL,
    bridge text NOT NULL,
    closed_by text NOT NULL,
    closed_at timestamptz NOT NULL,
    PRIMARY KEY (provider, day)
); -- by key
