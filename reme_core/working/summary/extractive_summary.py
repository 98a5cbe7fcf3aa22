"""A summary without a model: quotations from what was said, chosen by their words.

Nothing in it is invented: sentences are quoted whole or cut at their end with "…", after who said them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from reme_core.ports import TokenCounter
from reme_core.schema import Message
from reme_core.text import extractive_summary, normalise_content, query_terms, split_sentences, without_notices
from reme_core.working.summary.identifiers import IdentifierKind, identifiers
from reme_core.working.summary.sections import Section, Summary, clean_line, parse_summary, summary_of
from reme_core.working.summary.summary_fit import without_pointers
from reme_core.working.tool_results import split_line

_MUST = re.compile(
    r"\b(?:must(?:n['’]t)?|never|always|only|do not|don['’]t|cannot|can['’]t|(?<!\bi )should(?: not|n['’]t)?|without|"
    r"at (?:most|least)|required?|forbidden|make sure|no more than|under no|avoid)\b"
    r"|不要|不得|不能|不许|不可|必须|务必|只能|只要|一定|禁止|避免|不超过|至少|最多|始终|永远",
    re.IGNORECASE,
)
_DECIDED = re.compile(
    r"\b(?:decid(?:e|ed|ing)|decision|agreed?|cho(?:se|sen)|choose|we['’]ll use|"
    r"(?:will|going to|let['’]s) (?:use|go with)|settled? on|went with|go with|instead of|prefer(?:red)?)\b"
    r"|决定|选定|选择|采用|改用|同意|商定|确定用",
    re.IGNORECASE,
)
_NEXT = re.compile(
    r"\b(?:next|then i|i['’]ll|i will|let me|going to|plan(?:ning)? to|to[- ]?do|remaining|still (?:need|have) to|"
    r"need(?:s)? to)\b"
    r"|接下来|下一步|然后我|我将|我会|准备|打算|计划|还需|待办",
    re.IGNORECASE,
)
_FIRST, _LATEST = "asked first: ", "asked last: "
_NAMED = "named: "
# A sentence doesn't end behind these; lines that begin with ">" quote somebody else.
_ABBREVIATED = re.compile(r"\b(?:dr|mr|mrs|ms|prof|st|vs|no|e\.g|i\.e|approx)\.$", re.IGNORECASE)
_QUOTATION = re.compile(r"^[ \t]*>.*$", re.MULTILINE)
# Sentences are quoted up to this length, shorter below small limits (in characters for each token of the limit); a
# request is mostly said in its first ones.
_SENTENCE_CHARS, _LEAST_SENTENCE_CHARS, _CHARS_PER_TOKEN = 300, 80, 0.4
# Of very long conversations the newest so many characters are looked at, and so many of one message and of a tool's
# output, which is long and says little for its length.
_READ_CHARS, _MESSAGE_CHARS, _OUTPUT_CHARS = 180_000, 8_000, 400
_MOST_QUOTED, _MOST_NEXT, _MOST_NAMES = 30, 5, 30
# Behind what is read of a message there may stand the notice of what was left out of it, which is no part of it.
_NOTICE_CHARS = 250
# A request has at least so many words; "go on" and "thanks" say nothing of the goal.
_REQUEST_WORDS = 3
# The share of the limit that the key sentences take; the other sections, headings and pointers have the rest.
_PROGRESS_SHARE = 0.35
# Of a sentence, where an abbreviation is looked for.
_SAMPLED_END = 10
# Sampled to find how many characters this text has for a token.
_SAMPLE_CHARS = 2_000


def extract_summary(messages: Sequence[Message], previous: str, *, limit_tokens: int, counter: TokenCounter) -> Summary:
    """Summarise messages by quoting them, after what an earlier summary says.

    A previous text that is no summary is kept as lines of Critical Context. The result may be longer than the limit:
    its lines stand in order, so that `finish` can drop the oldest ones. Time about linear in the messages.
    """
    before = read_previous(previous)
    said = _newest(messages)
    most = max(_LEAST_SENTENCE_CHARS, min(_SENTENCE_CHARS, int(limit_tokens * _CHARS_PER_TOKEN)))
    users = [(message, text) for message, text in said if message.role == "user"]
    talk = [(message, text) for message, text in said if message.role in {"user", "assistant"}]
    constraints, decisions = _quoted(users, _MUST, most), _quoted(talk, _DECIDED, most)
    elsewhere = frozenset((*constraints, *decisions))
    return summary_of(
        {
            Section.GOAL: _goal(before, messages, most),
            Section.CONSTRAINTS: _joined(before.of(Section.CONSTRAINTS), constraints),
            Section.PROGRESS: _joined(
                before.of(Section.PROGRESS), _progress(said, elsewhere, most, limit_tokens, counter)
            ),
            Section.DECISIONS: _joined(before.of(Section.DECISIONS), decisions),
            Section.NEXT_STEPS: _next_steps(talk, before, most),
            Section.CONTEXT: _context(before, said, most),
        }
    )


def read_previous(text: str) -> Summary:
    """Read an earlier summary without its pointers; a text that is none becomes lines of Critical Context."""
    if not text.strip():
        return Summary()
    try:
        return without_pointers(parse_summary(text))
    except ValueError:
        pieces = [piece for sentence in split_sentences(text) for piece in split_line(sentence, _SENTENCE_CHARS)]
        return without_pointers(summary_of({Section.CONTEXT: pieces}))


def _newest(messages: Sequence[Message]) -> list[tuple[Message, str]]:
    """Return the newest messages with what is read of each, in order."""
    found: list[tuple[Message, str]] = []
    room = _READ_CHARS
    for message in reversed(messages):
        if room <= 0:
            break
        most = min(room, _OUTPUT_CHARS if message.result_ids else _MESSAGE_CHARS)
        text = without_notices(message.full_text[: most + _NOTICE_CHARS])[:most]
        room -= len(text) + 1
        found.append((message, text))
    found.reverse()
    return found


def _goal(before: Summary, messages: Sequence[Message], most_chars: int) -> list[str]:
    earlier = [line for line in before.of(Section.GOAL) if not line.startswith(_LATEST)]
    requests = [message for message in messages if message.role == "user" and message.text.strip()]
    if not requests:
        return list(before.of(Section.GOAL))
    telling = [message for message in requests if _is_telling(message.text)]
    if telling:  # a greeting that stood for the first request so far makes room for it
        earlier = [line for line in earlier if not line.startswith(_FIRST) or _is_telling(line.removeprefix(_FIRST))]
    first, last = (telling[0], telling[-1]) if telling else (requests[0], requests[-1])
    if not earlier:
        earlier = [_FIRST + _request(first, most_chars)]
    latest = _request(last, most_chars)
    return earlier if any(latest in line for line in earlier) else [*earlier, _LATEST + latest]


def _is_telling(text: str) -> bool:
    return len(query_terms(text[:_MESSAGE_CHARS])) >= _REQUEST_WORDS


def _request(message: Message, most_chars: int) -> str:
    return _cut(" ".join(message.text[: 4 * _SENTENCE_CHARS].split()), most_chars)


def _cut(sentence: str, most_chars: int) -> str:
    """Return a sentence, or its beginning with "…"."""
    return sentence if len(sentence) <= most_chars else f"{split_line(sentence, most_chars - 1)[0]}…"


def _quoted(said: Iterable[tuple[Message, str]], pattern: re.Pattern[str], most_chars: int) -> list[str]:
    """Return the newest sentences that a pattern is found in, each with who said it."""
    found: list[str] = []
    for message, _ in reversed(list(said)):
        sentences = [text for text in _sentences(message) if pattern.search(text)]
        found += [_line(message, text, most_chars) for text in reversed(sentences)]
        if len(found) >= _MOST_QUOTED:
            break
    return found[:_MOST_QUOTED][::-1]


def _line(message: Message, sentence: str, most_chars: int) -> str:
    return f"{message.speaker}: {_cut(sentence, most_chars)}"


def _sentences(message: Message) -> list[str]:
    """Return the sentences of a message, without those that it quotes."""
    found: list[str] = []
    for part in split_sentences(_QUOTATION.sub("", without_notices(message.text)[:_MESSAGE_CHARS])):
        sentence = " ".join(part.split())
        if found and _ABBREVIATED.search(found[-1][-_SAMPLED_END:]):
            found[-1] += f" {sentence}"
        else:
            found.append(sentence)
    return found


def _progress(
    said: Sequence[tuple[Message, str]],
    elsewhere: frozenset[str],
    most_chars: int,
    limit_tokens: int,
    counter: TokenCounter,
) -> list[str]:
    """Quote what tells most, but for what stands elsewhere and what was only about to be done."""
    sample = "\n".join(text for _, text in said[-50:])[-_SAMPLE_CHARS:]
    chars_per_token = len(sample) / max(1, counter.count(sample))
    room = max(1, int(limit_tokens * _PROGRESS_SHARE * chars_per_token))
    # What was said tells more than what tools returned, which is offloaded where it is long.
    turns: list[tuple[str, str]] = []
    for message, _ in said:
        spoken = _sentences(message) if message.role != "tool" else []
        told = [
            text
            for text in spoken
            if _line(message, text, most_chars) not in elsewhere and not _is_ahead(message, text)
        ]
        if told:
            turns.append((message.speaker, "\n".join(told)))
    if not any(message.text.strip() for message, _ in said if message.role != "tool"):
        turns = [(message.speaker, text) for message, text in said]
    return extractive_summary(turns, limit_chars=room).splitlines()


def _is_ahead(message: Message, sentence: str) -> bool:
    return message.role == "assistant" and _NEXT.search(sentence) is not None


def _next_steps(talk: Sequence[tuple[Message, str]], before: Summary, most_chars: int) -> Sequence[str]:
    """Quote what the assistant said last that it is about to do, else what was asked last.

    What was next before is still next only if nobody has said anything since.
    """
    answers = (message for message, _ in reversed(talk) if message.role == "assistant" and message.text.strip())
    last = next(answers, None)
    steps = [] if last is None else [text for text in _sentences(last) if _is_ahead(last, text)]
    if last is not None and steps:
        return [_line(last, text, most_chars) for text in steps[-_MOST_NEXT:]]
    requests = (message for message, _ in reversed(talk) if message.role == "user" and message.text.strip())
    asked = next(requests, None)
    if asked is not None:
        return [f"{asked.speaker}: {_request(asked, most_chars)}"]
    return before.of(Section.NEXT_STEPS) if last is None else []


def _context(before: Summary, said: Sequence[tuple[Message, str]], most_chars: int) -> list[str]:
    """Return earlier lines and one line of names: those used now, then those named before.

    Numbers come last; after an earlier summary they don't come at all, as nobody knows any more what they count.
    """
    lines = before.of(Section.CONTEXT)
    others = [line for line in lines if not line.startswith(_NAMED)]
    earlier = [name for line in lines if line.startswith(_NAMED) for name in line.removeprefix(_NAMED).split(", ")]
    # A line that was too long ends with "…" in its last name.
    earlier = [name for name in earlier if not name.endswith("…") and not _is_number(name)]
    names = [name for name in _ranked(said) if before.is_empty or not _is_number(name)]
    return [*others, *_named((*names[:_MOST_NAMES], *earlier), most_chars)]


def _is_number(name: str) -> bool:
    return not name[:1].isalpha() and all(item.kind is IdentifierKind.NUMBER for item in identifiers(name))


def _ranked(said: Sequence[tuple[Message, str]]) -> list[str]:
    """Return the identifiers that were used most, of those the newest; bare numbers come last."""
    counts = Counter[str]()
    latest: dict[str, int] = {}
    numbers: set[str] = set()
    for place, (_, text) in enumerate(said):
        for item in identifiers(text):
            counts[item.text] += 1
            latest[item.text] = place
            if item.kind is IdentifierKind.NUMBER:
                numbers.add(item.text)
    return sorted(counts, key=lambda name: (name in numbers, -counts[name], -latest[name], name))


def _named(names: Iterable[str], most_chars: int) -> list[str]:
    """Return a line with as many names as fit, each once; none for no names."""
    chosen: list[str] = []
    room = most_chars - len(_NAMED)
    for name in dict.fromkeys(map(clean_line, names)):
        if name and len(chosen) < _MOST_NAMES and len(name) + 2 <= room:
            chosen.append(name)
            room -= len(name) + 2
    return [_NAMED + ", ".join(chosen)] if chosen else []


def _joined(before: Iterable[str], new: Iterable[str]) -> list[str]:
    """Return earlier lines and new ones; what is said twice stands where it was said last."""
    lines: dict[str, str] = {}
    for line in (*before, *new):
        key = normalise_content(line)
        lines.pop(key, None)
        lines[key] = line
    return list(lines.values())
