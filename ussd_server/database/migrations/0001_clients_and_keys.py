"""Clients, users, logins, the audit trail and API keys."""

from ussd_server.database.schema import execute_all


def up(migrator, db):
    execute_all(
        db,
        """
        CREATE TABLE clients (
            id {id} PRIMARY KEY,
            name text NOT NULL,
            is_active {bool} NOT NULL,
            created_at {moment} NOT NULL,
            updated_at {moment} NOT NULL
        ) {strict};;
        CREATE TABLE users (
            id {id} PRIMARY KEY,
            client_id {id} NOT NULL REFERENCES clients (id),
            email text NOT NULL UNIQUE,
            password_hash text NOT NULL,
            role text NOT NULL CHECK (role IN ('owner', 'admin', 'developer', 'viewer')),
            is_active {bool} NOT NULL,
            created_at {moment} NOT NULL,
            updated_at {moment} NOT NULL
        ) {strict};;
        CREATE INDEX users_client ON users (client_id);;
        CREATE TABLE logins (
            id {id} PRIMARY KEY,
            user_id {id} NOT NULL REFERENCES users (id),
            client_id {id} NOT NULL REFERENCES clients (id),
            address text NOT NULL,
            refresh_number integer NOT NULL,
            created_at {moment} NOT NULL,
            expires_at {moment} NOT NULL,
            ended_at {moment},
            end_reason text
        ) {strict};;
        CREATE INDEX logins_user ON logins (user_id) WHERE ended_at IS NULL;;
        CREATE TABLE audit_events (
            id {id} PRIMARY KEY,
            client_id {id} REFERENCES clients (id),
            user_id {id},
            actor text NOT NULL,
            action text NOT NULL,
            object_id text,
            address text NOT NULL,
            request_id text NOT NULL,
            created_at {moment} NOT NULL
        ) {strict};;
        CREATE INDEX audit_events_newest ON audit_events (client_id, id);;
        CREATE TABLE api_keys (
            id {id} PRIMARY KEY,
            client_id {id} NOT NULL REFERENCES clients (id),
            apikey text NOT NULL UNIQUE,
            secret_sealed {bytes} NOT NULL,
            secret_digest {bytes} NOT NULL,
            digest_key_id text NOT NULL,
            previous_secret_sealed {bytes},
            previous_secret_digest {bytes},
            previous_secret_expires_at {moment},
            scopes text,
            is_active {bool} NOT NULL,
            created_at {moment} NOT NULL,
            updated_at {moment} NOT NULL,
            expires_at {moment},
            last_used_at {moment}
        ) {strict};;
        CREATE INDEX api_keys_client ON api_keys (client_id, id);;
        CREATE TABLE deleted_api_keys (
            apikey text PRIMARY KEY,
            id {id} NOT NULL,
            client_id {id} NOT NULL REFERENCES clients (id),
            deleted_at {moment} NOT NULL
        ) {strict}
        """,
    )
