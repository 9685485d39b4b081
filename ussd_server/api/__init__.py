"""What every API endpoint shares: authentication, limits, permission, bodies and the reply."""
