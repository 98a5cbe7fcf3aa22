"""Remembering: messages recorded, facts distilled from them, memories edited and undone."""
