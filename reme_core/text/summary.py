"""Telling parts of a text, word for word: an extractive summary, what says something of a question; questions, wishes.

Wishes: a request for help mostly shares no word with the wish that says how to help. Forms of English, Chinese,
Japanese and Korean are known; one that is missed is found like any other statement.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from reme_core.text.segment import query_terms, terms

# A sentence ends at a mark followed by a blank or the end, or at a full-width mark, closing quotes taken along.
_SENTENCE = re.compile(
    # Each run of marks is looked at once, so that a text of nothing but dots takes no longer than another.
    r"[^\n]*?(?:(?<![.!?])[.!?]++[\"')\]\u201d\u2019]*+(?=\s|$)"
    r"|[\u3002\uff01\uff1f]+[\u201d\u2019\u300d\u300f\uff09]*|(?=\n)|$)"
)
# Only so many characters of a block are read, and of a sentence quoted: a block is bounded, a pasted file is not.
_MAX_BLOCK_CHARS = 200_000
_MAX_SENTENCE_CHARS = 2_000
# A question tells less than its answer.
_QUESTION_SHARE = 0.4


@dataclass(frozen=True, slots=True)
class _Sentence:
    place: int
    turn: int
    name: str
    text: str
    words: frozenset[str]


def split_sentences(text: str) -> list[str]:
    """Cut a text into sentences, stripped, in order; line ends cut too. Nothing but blanks is lost."""
    return [sentence for match in _SENTENCE.finditer(text) if (sentence := match.group().strip())]


def extractive_summary(turns: Sequence[tuple[str, str]], *, limit_chars: int = 400) -> str:
    """Quote the most informative sentences of a block in their order, each turn labelled `Name: `.

    `turns` are pairs (name, text). A sentence scores by how much its words say of the block (their count in the block,
    weighed down where one is in most turns), and each word counts once over the whole summary. Deterministic; linear
    in the text but for the choice. Nothing is invented: a sentence is quoted whole, or, if not even one fits, the
    beginning of the best one with "…".

    Returns:
        Lines joined by newline, at most `limit_chars` characters; "" for a block without words.

    Raises:
        ValueError: `limit_chars` is below 1.
    """
    if limit_chars < 1:
        msg = f"limit_chars must be at least 1, not {limit_chars}"
        raise ValueError(msg)
    sentences = _sentences(turns)
    chosen = _choose(sentences, limit_chars)
    if chosen:
        return _written(chosen)
    if not sentences:
        return ""
    best = max(sentences, key=lambda s: (len(s.words), -s.place))
    line = _written([best])
    return line[: limit_chars - 1].rstrip() + "…" if len(line) > limit_chars else line


def _sentences(turns: Sequence[tuple[str, str]]) -> list[_Sentence]:
    found: list[_Sentence] = []
    room = _MAX_BLOCK_CHARS
    for turn, (name, text) in enumerate(turns):
        for sentence in split_sentences(text[:room]):
            words = frozenset(query_terms(sentence[:_MAX_SENTENCE_CHARS]))
            found.append(_Sentence(len(found), turn, name, " ".join(sentence.split()), words))
        room -= min(len(text), room)
    return found


def _choose(sentences: Sequence[_Sentence], limit_chars: int) -> list[_Sentence]:
    weights = _word_weights(sentences)
    scored = sorted(sentences, key=lambda s: (-_worth(s, weights), s.place))
    told: set[str] = set()
    chosen: list[_Sentence] = []
    room = limit_chars
    for sentence in scored:
        if room <= 0:
            break
        cost = len(sentence.text) + len(sentence.name) + 3
        new = sentence.words - told
        # The line break that `cost` counts is not written for the first line.
        if cost - 1 <= room and 2 * len(new) > len(sentence.words):
            chosen.append(sentence)
            told |= sentence.words
            room -= cost
    return sorted(chosen, key=lambda s: s.place)


def _word_weights(sentences: Sequence[_Sentence]) -> dict[str, float]:
    counts = Counter(word for sentence in sentences for word in sentence.words)
    n = len(sentences)
    return {word: math.log1p(count) * math.log1p(n / count) for word, count in counts.items()}


def _worth(sentence: _Sentence, weights: dict[str, float]) -> float:
    """Sum the weights of the words over the square root of their number: neither length nor brevity wins by itself."""
    if not sentence.words:
        return 0.0
    # `fsum` is exact, so the order of the set, which differs between processes, does not show.
    total = math.fsum(weights[word] for word in sentence.words)
    share = _QUESTION_SHARE if is_question(sentence.text) else 1.0
    return share * total / math.sqrt(len(sentence.words) + 3)


def _written(chosen: Sequence[_Sentence]) -> str:
    lines: list[str] = []
    turn = -1
    for sentence in chosen:
        if sentence.turn == turn:
            lines[-1] += f" {sentence.text}"
        else:
            lines.append(f"{sentence.name}: {sentence.text}" if sentence.name else sentence.text)
        turn = sentence.turn
    return "\n".join(lines)


# About the length of a sentence: small enough that the best part of a text has room where room is short.
_PART_CHARS = 120
# A part that is cut to less tells nothing.
_LEAST_CHARS = 20
# Only the beginning of a text is read: of fifty texts, what takes some tenths of a second to cut into words.
_READ_CHARS = 20_000
# More parts than these are seldom shown of one text, so that their order need not be known.
_MOST_CHOSEN = 16
_GAP = " … "


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedParts:
    """A text in parts, sentences for the most.

    Attributes:
        parts: In the order of the text; joined they are the text, blanks squeezed.
        ranked: Their places, those to be shown first at the front.
    """

    parts: tuple[str, ...]
    ranked: tuple[int, ...]

    @property
    def chars(self) -> int:
        """The length of the whole text."""
        return len("".join(self.parts).rstrip())

    def excerpt(self, max_chars: int) -> str:
        """Return the whole text, or its best parts with "…" for what is left out.

        At most `max_chars` characters, which have to be 10 at least.
        """
        if self.chars <= max_chars:
            return "".join(self.parts).rstrip()
        taken: dict[int, str] = {}
        room = max_chars - len(_GAP)
        for place in self.ranked:
            room -= len(_GAP)
            part = self.parts[place][: max(0, room)]
            if part == self.parts[place] or len(part) >= _LEAST_CHARS or not taken:
                taken[place] = part
            room -= len(part)
            if part != self.parts[place]:
                break
        return self._joined(taken)

    def _joined(self, taken: Mapping[int, str]) -> str:
        text, end = "", 0
        for place in sorted(taken):
            text = text + taken[place] if place == end else text.rstrip() + _GAP + taken[place]
            end = place + 1 if taken[place] == self.parts[place] else -1
        return text.strip() if end == len(self.parts) else f"{text.rstrip()}{_GAP}".strip()


def rank_parts(texts: Sequence[str], words: frozenset[str]) -> list[RankedParts]:
    """Cut texts into parts, and rank the parts of each by what they say of a question with these index terms.

    The best part comes first, then the beginning, which mostly says what a text is about, then parts with words that
    were not shown yet, then the others as they stand. A word counts the more, the fewer of the texts hold it. Of a text
    above 20,000 characters only the beginning is read.
    """
    cut = [tuple(_parts(text[:_READ_CHARS])) for text in texts]
    shared = [[words.intersection(terms(part)) for part in parts] for parts in cut]
    held = Counter(word for of_text in shared for word in frozenset[str]().union(*of_text))
    weights = {word: math.log1p(len(texts) / count) for word, count in held.items()}
    return [
        RankedParts(parts=parts, ranked=_ranked(of_text, weights)) for parts, of_text in zip(cut, shared, strict=True)
    ]


def _ranked(shared: Sequence[frozenset[str]], weights: Mapping[str, float]) -> tuple[int, ...]:
    told: frozenset[str] = frozenset()
    chosen: list[int] = []
    while len(chosen) < _MOST_CHOSEN:
        gains = [math.fsum(weights[word] for word in words - told) for words in shared]
        best = max(gains, default=0.0)
        if not best:
            break
        chosen.append(gains.index(best))
        told |= shared[chosen[-1]]
    return tuple(dict.fromkeys([*chosen[:1], *range(len(shared))[:1], *chosen, *range(len(shared))]))


def _parts(text: str) -> Iterator[str]:
    end = 0
    for sentence in split_sentences(text):
        end = text.index(sentence, end) + len(sentence)
        left = " ".join(sentence.split())
        while len(left) > _PART_CHARS:
            cut = left.rfind(" ", _PART_CHARS // 2, _PART_CHARS) + 1 or _PART_CHARS
            yield left[:cut]
            left = left[cut:]
        yield f"{left} " if text[end : end + 1].isspace() else left


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
_WISH_CHARS = 400


def states_wish(text: str) -> bool:
    """Tell whether a text says what is to hold from now on, by its first 400 characters. Never raises."""
    return _WISH.search(text[:_WISH_CHARS]) is not None
