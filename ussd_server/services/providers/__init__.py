"""The providers that are switched on, and what is known of them."""
