"""Commands about menus, and a phone in the terminal."""
