"""Standing wishes: what somebody wants to hold from now on ("Always answer in metric units", "I prefer aisle seats").

A request for help mostly shares no word with the wish that says how to help. Forms of English, Chinese, Japanese and
Korean are known; one that is missed is found like any other statement.
"""

import re

_WISH = re.compile(
    r"^\W*(?:please,?\s+)?(?:from now on\b|(?:always|never)\b(?!\s*[,.!?]| (?:mind|ever|again|been|had|was|knew|\w+ed|"
    r"heard|seen|thought|said|did|got|a|an|the|in|on|at)\b))"
    r"|\b(?:i|we)(?:['\u2019]d| would)?(?: \w+ly| much)? prefer\b"
    "|(?:以后|以後|今后|今後|从现在起|從現在起)[^。？?]*(?:请|請|要|都|别|別)|我(?:更|比较|比較)喜[欢歡]|我(?:偏好|倾向|傾向)"
    "|(?:これから|今後)は|(?:必ず|いつも|絶対に)[^。？?]*(?:ください|ほしい)|(?:方|ほう)が好き"
    "|앞으로[^.?]*(?:주세요|마세요|해줘)|(?:항상|언제나|절대)[^.?]*(?:주세요|마세요|해줘|하지 마)|선호",
    re.IGNORECASE,
)
# A wish is said at the beginning, or in a turn; a pasted text is none.
_READ_CHARS = 400


def states_wish(text: str) -> bool:
    """Tell whether a text says what is to hold from now on, by its first 400 characters. Never raises."""
    return _WISH.search(text[:_READ_CHARS]) is not None
