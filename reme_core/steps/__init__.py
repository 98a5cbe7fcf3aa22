"""Steps that flows share: ask a model for JSON, embed, slice, find the similar, resolve targets."""
