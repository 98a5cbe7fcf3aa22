"""Facade: `ReMe` by subject, its blocking face, and its settings."""
