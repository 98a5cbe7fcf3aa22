"""Language of a text, told by its letters: scripts, the language of prompts, and tokens by estimate."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

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


# Tokens per character. ASCII: four characters a token (OpenAI, "What are tokens"). Han, kana and Hangul: vendors state
# 0.6 (DeepSeek and Qwen on their own vocabularies) to 1 and above (older ones); 0.8 errs towards more. Other scripts:
# two characters a token, between Latin with accents and Indic scripts.
_ASCII, _WIDE, _OTHER = 0.25, 0.8, 0.5

_WIDE_CHARS = re.compile(
    "[\u1100-\u11ff\u2e80-\u303f\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]+"
)
_OTHER_CHARS = re.compile(r"[^\x00-\x7f]+")


def estimate_tokens(text: str) -> int:
    """Estimate the tokens a language model counts for a text.

    Whole tokens, rounded up; 0 for the empty text. An estimate: texts of symbols or digits take up to twice as many.
    Linear in the length of the text.
    """
    if text.isascii():
        return math.ceil(len(text) * _ASCII)
    wide = sum(map(len, _WIDE_CHARS.findall(text)))
    other = sum(map(len, _OTHER_CHARS.findall(text))) - wide
    return math.ceil((len(text) - wide - other) * _ASCII + wide * _WIDE + other * _OTHER)
