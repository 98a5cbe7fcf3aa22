"""An extractive summary: the most telling sentences of a block, word for word."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from reme_core.text.questions import is_question
from reme_core.text.segment import query_terms

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
