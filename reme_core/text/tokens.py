"""A token estimate from characters, for budgets where no tokenizer is at hand."""

import math
import re

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
