"""A token counter that needs no tokenizer."""

from __future__ import annotations

from reme_core.text import estimate_tokens


class CharacterTokenCounter:
    """Counts tokens from characters: an estimate, see `reme_core.text.estimate_tokens`. A `TokenCounter`."""

    def count(self, text: str) -> int:
        """Return the estimated number of tokens, 0 for an empty text."""
        return estimate_tokens(text)
