-- Events, webhooks, mails and messages.

CREATE TABLE events (
    id uuid PRIMARY KEY,
    client_id uuid NOT NULL REFERENCES clients (id),
    type text NOT NULL,
    object_id text NOT NULL,
    sequence integer NOT NULL CHECK (sequence > 0),
    payload text NOT NULL,
    created_at timestamptz NOT NULL,
    traceparent text,
    UNIQUE (object_id, sequence)
);
CREATE INDEX events_newest ON events (client_id, id);
CREATE INDEX events_newest_of_type ON events (client_id, type, id);

-- Events that the relay has not turned into deliveries yet.
CREATE TABLE pending_events (
    event_id uuid PRIMARY KEY,
    only_missed boolean NOT NULL DEFAULT false
); -- by key

CREATE TABLE webhooks (
    id uuid PRIMARY KEY,
    client_id uuid NOT NULL REFERENCES clients (id),
    url text,
    types text,
    secret_sealed bytea NOT NULL,
    previous_secret_sealed bytea,
    previous_secret_expires_at timestamptz,
    is_active boolean NOT NULL,
    is_proven boolean NOT NULL,
    failing_since timestamptz,
    missed_since timestamptz,
    disabled_at timestamptz,
    disabled_reason text,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    CHECK (is_active = (disabled_at IS NULL)),
    CHECK ((previous_secret_sealed IS NULL) = (previous_secret_expires_at IS NULL))
);
CREATE INDEX webhooks_client ON webhooks (client_id, id);
CREATE UNIQUE INDEX webhooks_callbacks ON webhooks (client_id) WHERE url IS NULL;

CREATE TABLE deliveries (
    id uuid PRIMARY KEY,
    client_id uuid NOT NULL REFERENCES clients (id),
    event_id uuid NOT NULL REFERENCES events (id),
    webhook_id uuid NOT NULL,
    object_id text NOT NULL,
    sequence integer NOT NULL,
    url text NOT NULL,
    status text NOT NULL CHECK (status IN ('waiting', 'delivered', 'dead', 'cancelled')),
    attempts integer NOT NULL,
    due_at timestamptz,
    leased_until timestamptz,
    lease_token text,
    answer_status integer,
    answer text,
    trouble text,
    took_ms integer,
    created_at timestamptz NOT NULL,
    attempted_at timestamptz,
    completed_at timestamptz,
    CHECK (due_at IS NULL OR status = 'waiting'),
    CHECK (lease_token IS NULL OR due_at IS NOT NULL),
    CHECK ((completed_at IS NULL) = (status = 'waiting'))
);
CREATE INDEX deliveries_event ON deliveries (event_id);
CREATE INDEX deliveries_waiting ON deliveries (webhook_id, object_id, sequence) WHERE status = 'waiting';
-- At most one delivery of an object has a due date at each webhook: the database itself keeps the order.
CREATE UNIQUE INDEX deliveries_heads ON deliveries (webhook_id, object_id) WHERE due_at IS NOT NULL;
CREATE INDEX deliveries_due ON deliveries (webhook_id, due_at) WHERE due_at IS NOT NULL;
-- The console lists the deliveries of a webhook that were given up.
CREATE INDEX deliveries_dead ON deliveries (webhook_id, event_id) WHERE status = 'dead';
CREATE INDEX deliveries_under_way ON deliveries (webhook_id) WHERE lease_token IS NOT NULL;

CREATE TABLE delivery_attempts (
    id uuid PRIMARY KEY,
    delivery_id uuid NOT NULL REFERENCES deliveries (id) ON DELETE CASCADE,
    webhook_id uuid NOT NULL,
    number integer NOT NULL,
    headers text NOT NULL,
    answer_status integer,
    answer text,
    trouble text,
    took_ms integer NOT NULL,
    attempted_at timestamptz NOT NULL,
    UNIQUE (delivery_id, number)
);
CREATE INDEX delivery_attempts_of_webhook ON delivery_attempts (webhook_id, id);

CREATE TABLE mails (
    id uuid PRIMARY KEY,
    kind text NOT NULL,
    client_id uuid,
    person_id uuid,
    recipient text NOT NULL,
    parameters text NOT NULL,
    occasion text,
    status text NOT NULL CHECK (status IN ('waiting', 'sent', 'failed')),
    attempts integer NOT NULL,
    give_up_at timestamptz NOT NULL,
    due_at timestamptz,
    leased_until timestamptz,
    lease_token text,
    trouble text,
    answer_code integer,
    created_at timestamptz NOT NULL,
    attempted_at timestamptz,
    completed_at timestamptz
);
CREATE INDEX mails_due ON mails (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX mails_of_client ON mails (client_id, id);
CREATE INDEX mails_of_status ON mails (status, id);
CREATE INDEX mails_of_person ON mails (person_id, id) WHERE person_id IS NOT NULL;
CREATE UNIQUE INDEX mails_once ON mails (occasion, recipient) WHERE occasion IS NOT NULL;

CREATE TABLE unwanted_mails (
    person_id uuid NOT NULL,
    kind text NOT NULL,
    PRIMARY KEY (person_id, kind)
); -- by key

-- Messages (SMS) to phones. A reference names one message of a client for as long as the message is kept.
CREATE TABLE messages (
    id uuid PRIMARY KEY,
    client_id uuid NOT NULL REFERENCES clients (id),
    reference text NOT NULL,
    phone_number text NOT NULL,
    text text NOT NULL,
    parts integer NOT NULL CHECK (parts > 0),
    status text NOT NULL CHECK (status IN ('queued', 'sent', 'delivered', 'failed', 'unknown')),
    failure_code text,
    transaction_id uuid,
    sender_message_id text,
    early_reports text,
    attempts integer NOT NULL,
    asked_at timestamptz,
    due_at timestamptz,
    leased_until timestamptz,
    lease_token text,
    created_at timestamptz NOT NULL,
    completed_at timestamptz,
    UNIQUE (client_id, reference),
    CHECK ((due_at IS NULL) = (status <> 'queued')),
    CHECK (lease_token IS NULL OR due_at IS NOT NULL),
    CHECK ((completed_at IS NULL) = (status IN ('queued', 'sent'))),
    CHECK ((failure_code IS NULL) = (status <> 'failed')),
    CHECK (early_reports IS NULL OR due_at IS NOT NULL)
);
CREATE INDEX messages_due ON messages (client_id, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX messages_being_sent ON messages (phone_number) WHERE asked_at IS NOT NULL AND due_at IS NOT NULL;
CREATE INDEX messages_queued ON messages (id) WHERE due_at IS NOT NULL;
CREATE INDEX messages_newest ON messages (client_id, id);
CREATE INDEX messages_of_number ON messages (client_id, phone_number, id);
CREATE INDEX messages_of_payment ON messages (transaction_id) WHERE transaction_id IS NOT NULL;
CREATE INDEX messages_of_sender ON messages (sender_message_id) WHERE sender_message_id IS NOT NULL;

CREATE TABLE receipts (
    client_id uuid NOT NULL REFERENCES clients (id),
    type text NOT NULL CHECK (type IN ('collection', 'disbursement', 'refund', 'transfer')),
    texts text NOT NULL,
    PRIMARY KEY (client_id, type)
); -- by key
