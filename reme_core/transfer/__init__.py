"""Transfer: scopes and memory libraries as JSON Lines, written and read."""
