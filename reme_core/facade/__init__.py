"""The facade: ReMe by subject, its settings, and the same without await."""
