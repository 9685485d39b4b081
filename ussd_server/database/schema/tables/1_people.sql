-- Clients, people and operators: who may call, and what they did.

CREATE TABLE clients (
    id uuid PRIMARY KEY,
    name text NOT NULL,
    is_active boolean NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    requires_second_factor boolean NOT NULL,
    counts_readers boolean NOT NULL
);

CREATE TABLE users (
    id uuid PRIMARY KEY,
    client_id uuid NOT NULL REFERENCES clients (id),
    email text NOT NULL UNIQUE,
    password_hash text NOT NULL,
    role text NOT NULL CHECK (role IN ('owner', 'admin', 'developer', 'viewer')),
    is_active boolean NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    link_seen_by text,
    password_seen_by text,
    language text,
    invited_by text
);
CREATE INDEX users_client ON users (client_id);

CREATE TABLE user_factors (
    user_id uuid PRIMARY KEY REFERENCES users (id),
    factor_sealed bytea NOT NULL,
    last_step bigint NOT NULL,
    created_at timestamptz NOT NULL
);

CREATE TABLE user_recovery_codes (
    user_id uuid NOT NULL REFERENCES users (id),
    code_digest text NOT NULL,
    used_at timestamptz,
    PRIMARY KEY (user_id, code_digest)
); -- by key

CREATE TABLE logins (
    id uuid PRIMARY KEY,
    user_id uuid NOT NULL REFERENCES users (id),
    client_id uuid NOT NULL REFERENCES clients (id),
    address text NOT NULL,
    refresh_number integer NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    ended_at timestamptz,
    end_reason text,
    code_accepted_at timestamptz
);
CREATE INDEX logins_user ON logins (user_id) WHERE ended_at IS NULL;

CREATE TABLE api_keys (
    id uuid PRIMARY KEY,
    client_id uuid NOT NULL REFERENCES clients (id),
    apikey text NOT NULL UNIQUE,
    secret_sealed bytea NOT NULL,
    secret_digest bytea NOT NULL,
    digest_key_id text NOT NULL,
    previous_secret_sealed bytea,
    previous_secret_digest bytea,
    previous_secret_expires_at timestamptz,
    scopes text,
    is_active boolean NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    expires_at timestamptz,
    last_used_at timestamptz,
    people text,
    previous_people text,
    readers text,
    previous_readers text,
    name text,
    created_by uuid,
    allowed_addresses text,
    daily_limit_cents bigint CHECK (daily_limit_cents > 0),
    last_used_address text,
    bounds_set_by text NOT NULL
);
CREATE INDEX api_keys_client ON api_keys (client_id, id);
CREATE INDEX api_keys_expiring ON api_keys (expires_at) WHERE expires_at IS NOT NULL;

-- Deleted keys: the operator can look one up, and no import brings one back.
CREATE TABLE deleted_api_keys (
    apikey text PRIMARY KEY,
    id uuid NOT NULL,
    client_id uuid NOT NULL REFERENCES clients (id),
    deleted_at timestamptz NOT NULL
);
CREATE INDEX deleted_api_keys_id ON deleted_api_keys (id);

-- Counts the changes of keys that a process without Redis may have missed.
CREATE TABLE unseen_changes (
    id integer PRIMARY KEY CHECK (id = 1),
    number bigint NOT NULL
);
INSERT INTO unseen_changes (id, number) VALUES (1, 0);

CREATE TABLE operators (
    id uuid PRIMARY KEY,
    email text NOT NULL UNIQUE,
    password_hash text NOT NULL,
    factor_sealed bytea NOT NULL,
    last_step bigint NOT NULL,
    is_active boolean NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    language text
);

CREATE TABLE recovery_codes (
    operator_id uuid NOT NULL REFERENCES operators (id),
    code_digest text NOT NULL,
    used_at timestamptz,
    PRIMARY KEY (operator_id, code_digest)
); -- by key

CREATE TABLE operator_logins (
    id uuid PRIMARY KEY,
    operator_id uuid NOT NULL REFERENCES operators (id),
    address text NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    ended_at timestamptz,
    end_reason text
);
CREATE INDEX operator_logins_open ON operator_logins (operator_id) WHERE ended_at IS NULL;

CREATE TABLE proposals (
    id uuid PRIMARY KEY,
    action text NOT NULL,
    object_id text NOT NULL,
    parameters text NOT NULL,
    reason text NOT NULL,
    proposed_by text NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    decided_by text,
    decided_at timestamptz,
    outcome text
);
CREATE INDEX proposals_open ON proposals (id) WHERE decided_at IS NULL;
CREATE UNIQUE INDEX proposals_one_open ON proposals (action, object_id) WHERE decided_at IS NULL;

CREATE TABLE audit_events (
    id uuid PRIMARY KEY,
    client_id uuid REFERENCES clients (id),
    user_id uuid,
    actor text NOT NULL,
    action text NOT NULL,
    object_id text,
    address text NOT NULL,
    request_id text NOT NULL,
    created_at timestamptz NOT NULL,
    operator text,
    reason text,
    key_id uuid,
    amount_cents bigint,
    phone_number text,
    decided_by text
);
CREATE INDEX audit_events_newest ON audit_events (client_id, id);
CREATE INDEX audit_events_of_object ON audit_events (object_id, client_id, id) WHERE object_id IS NOT NULL;
CREATE INDEX audit_events_of_action ON audit_events (client_id, action, id);
CREATE INDEX audit_events_of_person ON audit_events (client_id, user_id, id) WHERE user_id IS NOT NULL;
-- Logins that failed under unknown addresses have no client either; they have no object.
CREATE INDEX audit_events_without_client ON audit_events (object_id, id)
    WHERE client_id IS NULL AND object_id IS NOT NULL;
CREATE INDEX audit_events_of_operators ON audit_events (id) WHERE actor = 'operator' OR client_id IS NULL;
CREATE INDEX audit_events_of_operators_action ON audit_events (action, id) WHERE actor = 'operator' OR client_id IS NULL;
CREATE INDEX audit_events_of_operator ON audit_events (operator, id) WHERE operator IS NOT NULL;
CREATE INDEX audit_events_of_request ON audit_events (request_id, client_id, id);
