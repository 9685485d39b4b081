"""Menus: drafts, published versions, service codes and drop-offs."""
