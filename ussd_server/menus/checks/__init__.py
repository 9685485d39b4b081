"""The checks that a menu has to pass before it is published."""
