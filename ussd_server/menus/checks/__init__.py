"""What must be true before a menu may be published."""
