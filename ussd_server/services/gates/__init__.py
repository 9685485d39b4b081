"""Gates: the one place where money that arrived is claimed, and the one guard that money passes on its way out."""
