"""The scripts that a text is written in, by its letters."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping

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
# A character of these says as much as three letters or so.
_WEIGHTS = {"HAN": 3, "KANA": 3, "HANGUL": 3}
# So few letters are a name or an interjection.
_FEW_LETTERS = 12


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


def share_of_script(texts: Iterable[str], other: str) -> float | None:
    """Return how much of texts is in the script that another text is in: a share in [0, 1] of what they say.

    None where either has too few letters to tell.
    """
    held, own = count_scripts(texts), count_scripts([other])
    if _weight(held) < _FEW_LETTERS or _weight(own) < _FEW_LETTERS:
        return None
    script = max(own, key=lambda name: (own[name] * _WEIGHTS.get(name, 1), name))
    return held[script] * _WEIGHTS.get(script, 1) / _weight(held)


def _weight(scripts: Mapping[str, int]) -> int:
    return sum(count * _WEIGHTS.get(script, 1) for script, count in scripts.items())
