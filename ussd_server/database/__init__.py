"""The database: connections, transactions, group commit, compiled queries, replica and migrations."""
