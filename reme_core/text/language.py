"""The language of the prompts for a conversation: Chinese where most of it is Chinese, else English."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

Language: TypeAlias = Literal["en", "zh"]

# A page of Chinese prose quotes many Latin names and numbers; a Han character says about as much as two letters.
_HAN_SHARE = 0.2


def prompt_language(texts: Iterable[str]) -> Language:
    """Return the language of the prompts for texts.

    Chinese, if Han characters are a fifth of the letters or more and there are next to no kana (which would make it
    Japanese). For all other languages the English prompts ask to keep the language of what was said.
    """
    han = kana = letters = 0
    for text in texts:
        for char in text:
            if not char.isalpha():
                continue
            letters += 1
            if "\u4e00" <= char <= "\u9fff" or "\u3400" <= char <= "\u4dbf":
                han += 1
            elif "\u3040" <= char <= "\u30ff":
                kana += 1
    return "zh" if letters and han / letters >= _HAN_SHARE and kana * 10 <= han else "en"
