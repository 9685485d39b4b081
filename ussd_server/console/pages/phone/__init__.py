"""Pages of menus, sessions and the phone."""
