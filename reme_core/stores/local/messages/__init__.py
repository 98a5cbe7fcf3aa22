"""Messages and blocks as rows."""
