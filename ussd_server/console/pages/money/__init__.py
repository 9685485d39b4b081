"""Pages of money: payments, payouts, statements, reconciliation and providers."""
