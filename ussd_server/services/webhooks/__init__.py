"""Events, webhook subscriptions and deliveries."""
