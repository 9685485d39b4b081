"""Django REST framework with its API-key package, its throttles and Django's cache on Redis."""
