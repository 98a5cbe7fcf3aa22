"""Detection of questions: question marks of several scripts, final particles of Chinese, Japanese and Korean."""

import re

_MARK = re.compile("[?\uff1f\u061f\u037e\u2048\u2047\u203d]")
_CLOSING = " \t\r\n\u3000.\u3002!\uff01~\uff5e…\u3001,\uff0c\"'\u201d\u2019\u300d\u300f\uff09)"
_PARTICLES = (
    "吗", "嗎", "呢", "么", "麼",
    "ですか", "ますか", "でしょうか", "ませんか", "ましたか", "たか", "るか", "のか", "かな",
    "까", "까요", "나요", "가요", "니", "는지요", "냐",
)  # fmt: skip


def is_question(text: str) -> bool:
    """Tell whether a text asks something: a question mark anywhere, or a question particle at its end."""
    if _MARK.search(text):
        return True
    return not text.isascii() and text.rstrip(_CLOSING).endswith(_PARTICLES)
