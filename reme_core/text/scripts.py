"""The scripts that a text is written in, by its letters."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable

# Unicode's names of letters begin with their script; these are the ones that have several beginnings.
_SCRIPTS = (
    ("CJK", "HAN"),
    ("HIRAGANA", "KANA"),
    ("KATAKANA", "KANA"),
    ("HALFWIDTH KATAKANA", "KANA"),
    ("HALFWIDTH HANGUL", "HANGUL"),
    ("FULLWIDTH LATIN", "LATIN"),
)
# Japanese is written in Han and kana; less than such a share of kana are names in a Chinese text.
_KANA_SHARE = 0.1


def count_scripts(texts: Iterable[str]) -> Counter[str]:
    """Count the letters of texts by script: LATIN, HAN, KANA, HANGUL, CYRILLIC, ARABIC and so on, as Unicode's names.

    Han characters of a text with kana count as KANA: both are its script.
    """
    letters: Counter[str] = Counter()
    for text in texts:
        letters.update(text)
    scripts: Counter[str] = Counter()
    for letter, count in letters.items():
        if letter.isalpha() and (name := unicodedata.name(letter, "")):
            scripts[_script(name)] += count
    if scripts["KANA"] > _KANA_SHARE * scripts["HAN"]:
        scripts["KANA"] += scripts.pop("HAN", 0)
    return +scripts


def main_script(texts: Iterable[str]) -> str | None:
    """Return the script that most letters of texts are of, or None where there are no letters."""
    scripts = count_scripts(texts)
    return max(scripts, key=lambda script: (scripts[script], script), default=None)


def _script(name: str) -> str:
    return next((script for begins, script in _SCRIPTS if name.startswith(begins)), name.split(" ", 1)[0])
