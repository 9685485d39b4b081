"""Messages about menus, service codes, walks, replays and drop-offs."""
