"""The settlement of clients' money to their banks: bank accounts, what each client is due, and what was paid."""
