"""Tools: atomic memory operations that a model may call."""
