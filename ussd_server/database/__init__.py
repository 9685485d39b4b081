"""The database: connections, transactions, group commit, compiled queries and migrations."""
