"""Index terms of a text in any language, packed; and the form that tells whether two texts are the same.

English words lose their stop words and are stemmed (Porter2, M. F. Porter, snowballstem.org); scripts written without
blanks (Chinese, Japanese, Thai ...) and Korean become overlapping two-character grams, after Manning, Raghavan and
Schütze 2008, Introduction to Information Retrieval, section 2.2.1; words of other scripts are kept as they are, lower
case. Identifiers, paths and codes give the whole and its parts.

`TERMS_VERSION` changes whenever the terms of some text change, so that whoever stores packed terms knows when to
segment again, passages included.

A long text is cut into passages, a few sentences each, the unit in which it is indexed, embedded and shown: a reply of
400 words holds many subjects, and the one that is asked for stands in a few of its sentences. Passages are consecutive
and don't overlap; together they are the whole text.

Sources: the stop words are the English function words (articles, pronouns, auxiliaries, prepositions,
conjunctions, question words) with their contractions once the apostrophe is dropped; the irregular forms are the
common irregular verbs and plurals of any English grammar, which a suffix stemmer cannot bring together. A form that
is as often another word ("left", "found", "saw" as nouns or adjectives) is listed when the verb is the commoner
reading in talk.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt

_STOP = """
a about above all also am an and any are as at be because been being below between but by can cannot could did do does
doing done during each for from had has have having he her here hers herself him himself his how i if in into is it
its itself just me my myself no nor not now of on or our ours ourselves she should so some such than that the their
theirs them themselves then there these they this those through to too until upon us very was we were what when where
which while who whom whose why will with would you your yours yourself yourselves im ive youre youve youd youll hes
shes itll weve theyre theyve theyd theyll thats theres whats wheres whos hows lets isnt arent wasnt werent dont doesnt
didnt cant couldnt wont wouldnt shouldnt havent hasnt hadnt aint mustnt neednt s t d ll m o re ve y
"""
STOP_WORDS = frozenset(_STOP.split())
# Contractions that are other words without their apostrophe: "I'll", "she'd".
CONTRACTIONS = frozenset({"i'd", "i'll", "he'd", "he'll", "she'd", "she'll", "we'd", "we'll", "we're"})

_IRREGULAR = """
arise arose arisen; awake awoke awoken; beat beaten; become became; begin began begun; bend bent; bite bit bitten;
bleed bled; blow blew blown; break broke broken; breed bred; bring brought; build built; burn burnt; buy bought;
catch caught; choose chose chosen; come came; creep crept; deal dealt; dig dug; draw drew drawn;
dream dreamt; drink drank drunk; drive drove driven; eat ate eaten; fall fell fallen; feed fed; feel felt;
fight fought; find found; flee fled; fly flew flown; forbid forbade forbidden; forget forgot forgotten;
forgive forgave forgiven; freeze froze frozen; get got gotten; give gave given; go went gone; grow grew grown;
hang hung; hear heard; hide hid hidden; hold held; keep kept; kneel knelt; know knew known; lay laid; lead led;
lean leant; learn learnt; leave left; lend lent; light lit; lose lost; make made; mean meant; meet met; pay paid;
ride rode ridden; ring rang rung; rise rose risen; run ran; say said; see saw seen; seek sought; sell sold;
send sent; shake shook shaken; shine shone; shoot shot; show shown; shrink shrank shrunk; sing sang sung;
sink sank sunk; sit sat; sleep slept; slide slid; speak spoke spoken; spend spent; spill spilt; spin spun;
stand stood; steal stole stolen; stick stuck; sting stung; strike struck; strive strove striven; swear swore sworn;
sweep swept; swell swollen; swim swam swum; swing swung; take took taken; teach taught; tear tore torn; tell told;
think thought; throw threw thrown; understand understood; wake woke woken; wear wore worn; weave wove woven;
weep wept; win won; wind wound; withdraw withdrew withdrawn; write wrote written;
man men; woman women; child children; foot feet; tooth teeth; mouse mice; goose geese; wife wives;
knife knives; shelf shelves; half halves; wolf wolves; loaf loaves; thief thieves
"""


def _irregular_forms() -> dict[str, str]:
    forms: dict[str, str] = {}
    for group in _IRREGULAR.split(";"):
        base, *others = group.split()
        forms.update(dict.fromkeys(others, base))
    return forms


BASE_FORMS = _irregular_forms()


TERMS_VERSION = 4

# A longer word is data (a key, a blob in base 64) and only its beginning can be what somebody looks for.
_WORD_CHARS = 64
# Compounds above this are lists without blanks; only their parts become terms.
_COMPOUND_CHARS = 256

# Han with its extensions and iteration marks, kana, Hangul, and the blank-less scripts Thai, Lao, Burmese, Khmer.
GRAM_RANGES = (
    "\u0e01-\u0e2e\u0e30-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u1000-\u103f\u1780-\u17d3"
    "\u3005-\u3007\u3040-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003fffd"
)
# Combining marks that the `\w` of `re` leaves out: Latin, Cyrillic, Hebrew, Arabic; in the Indic blocks all but dandas.
_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0900-\u0963\u0966-\u0dff\u0f18-\u0fbc\u1ab0-\u1aff\u1dc0-\u1dff"
)
_JOINTS = r"['_.:/\\@&+-]"
_LETTER = rf"(?:(?![{GRAM_RANGES}])[^\W_]|[{_MARKS}])"
_ASCII_TOKEN = re.compile(rf"[A-Za-z0-9]+(?:{_JOINTS}{{1,2}}[A-Za-z0-9]+)*")
_ANY_TOKEN = re.compile(rf"[{GRAM_RANGES}]+|{_LETTER}+(?:{_JOINTS}{{1,2}}{_LETTER}+)*")
_GRAM_CHAR = re.compile(f"[{GRAM_RANGES}]")
_PART = re.compile(r"[^'_.:/\\@&+-]+")
_POSSESSIVE = re.compile(r"'[sS]\b|'")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# No suffix that Porter2 takes off or changes ends in one of these, so such words need no stemming.
_NO_SUFFIX = frozenset("abfhjkopquvwxz")
_APOSTROPHES = str.maketrans("\u2019\u2018\u02bc\uff07\u00b4`", "''''''")


def terms(text: str) -> list[str]:
    """Cut a text into index terms, in order of occurrence and with repetition.

    Accepts any string, lone surrogates and control characters included, in time linear in its length. A word above 64
    characters is cut. Behind the pairs of a run of gram characters come its single ones, so that a question of one
    character (茶) finds it. Stop words give no term, so the result may be empty.
    """
    found: list[str] = []
    for token in _tokens(text):
        found += _token_terms(token)
        if len(token) > 1 and _GRAM_CHAR.match(token):
            found += token
    return found


def query_terms(text: str) -> list[str]:
    """Cut what is looked for into terms: as `terms`, but of a run of gram characters the pairs alone.

    A run of one gram character is a term of one character.
    """
    return list(chain.from_iterable(map(_token_terms, _tokens(text))))


def pack_terms(words: Iterable[str]) -> bytes:
    """Pack terms as 64-bit hashes, eight bytes each, little endian, in the order given.

    The hash is BLAKE2b with a digest of 8 bytes: the same in every process and on every machine. Two terms of one
    vocabulary of a million collide with probability 3e-8.
    """
    return b"".join(map(_term_hash, words))


def unpack_terms(packed: bytes) -> npt.NDArray[np.uint64]:
    """Read packed terms as an array (n,) of 64-bit hashes, a read-only view of the bytes.

    Raises:
        ValueError: The length is no multiple of eight.
    """
    return np.frombuffer(packed, dtype="<u8").astype(np.uint64, copy=False)


def _tokens(text: str) -> list[str]:
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text.translate(_APOSTROPHES))
    return (_ASCII_TOKEN if text.isascii() else _ANY_TOKEN).findall(text)


def _token_terms(token: str) -> tuple[str, ...]:
    if len(token) > _COMPOUND_CHARS or _GRAM_CHAR.match(token):
        return _uncached_terms(token)
    return _cached_terms(token)


def _uncached_terms(token: str) -> tuple[str, ...]:
    if not _GRAM_CHAR.match(token):
        parts = (_cached_terms(part.group()[:_WORD_CHARS]) for part in _PART.finditer(token))
        return tuple(chain.from_iterable(parts))
    if len(token) == 1:
        return (token,)
    return tuple(map("".join, pairwise(token)))


@lru_cache(maxsize=1 << 16)
def _cached_terms(token: str) -> tuple[str, ...]:
    if token.lower() in CONTRACTIONS:
        return ()
    plain = _POSSESSIVE.sub("", token)
    parts = [piece for part in _PART.findall(plain) for piece in _camel_parts(part)]
    found = [form for part in parts if (form := _word_form(part[:_WORD_CHARS]))]
    if len(parts) > 1 and _names_something(plain):
        found.append(plain.lower()[:_WORD_CHARS])
    return tuple(found)


def _camel_parts(part: str) -> list[str]:
    return _CAMEL.split(part) if not part.islower() else [part]


def _names_something(compound: str) -> bool:
    """Tell an identifier, path, number or code from words joined by a hyphen, which are found by their parts."""
    return any(c not in "-'" and not c.isalpha() for c in compound) or "-" not in compound


def _word_form(word: str) -> str:
    word = word.lower()
    if not word.isascii():
        word = _without_accents(word)
    squeezed = word.replace("'", "")
    if squeezed in STOP_WORDS:
        return ""
    if not (squeezed.isascii() and squeezed.isalpha()):
        return squeezed
    if squeezed[-1] in _NO_SUFFIX and squeezed not in BASE_FORMS:
        return squeezed
    # Loaded with the first word: the library brings the stemmers of thirty languages, 40 ms for each process.
    from snowballstemmer.english_stemmer import EnglishStemmer  # noqa: PLC0415

    # One stemmer a call: a stemmer keeps the word it works on, so threads must not share one.
    stem: str = EnglishStemmer().stemWord(BASE_FORMS.get(squeezed, squeezed))
    return stem


def _without_accents(word: str) -> str:
    """Fold Latin letters with accents to the plain letter; leave other scripts as they are."""
    bare = "".join(c for c in unicodedata.normalize("NFKD", word) if not unicodedata.combining(c))
    return bare if bare.isascii() else word


@lru_cache(maxsize=1 << 16)
def _term_hash(term: str) -> bytes:
    # A big-endian digest read as little endian is as good a hash; what matters is that it never changes.
    return hashlib.blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def normalise_content(text: str) -> str:
    """Bring texts that differ only in case, blanks, width or outer punctuation to one form.

    NFKC, casefold, runs of blanks to one space, and no punctuation or blank at either end. Nothing inside the text is
    dropped, and symbols ("+", "$", emoji) stay, so "C" and "C++" remain two. A text of punctuation alone keeps it.
    Applying it twice changes nothing.
    """
    form = _folded(text)
    start, end = 0, len(form)
    while start < end and _is_outer(form[start]):
        start += 1
    while end > start and _is_outer(form[end - 1]):
        end -= 1
    return form[start:end] or form


def _folded(text: str) -> str:
    if text.isascii():  # the same, in a fraction of the time
        return " ".join(text.lower().split())
    # Case folding may undo NFKC and the reverse (a known property of Unicode, UAX #15): repeat until nothing changes.
    for _ in range(4):
        form = " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).split())
        if form == text:
            break
        text = form
    return text


def _is_outer(char: str) -> bool:
    return char == " " or (unicodedata.category(char).startswith("P") and char not in "#@%&*")


LONG_TERMS = 200
"""A text of more terms is cut: 94 % of the replies of assistants in BEAM (Tavakoli and others), 3 % of users' turns."""

PASSAGE_CHARS = 480
"""The most characters of a passage, about 120 tokens: what answered most questions in the same budget on BEAM."""

PASSAGE_GRAMS = 160
"""The same where most characters are of a script without blanks, which take three times as many tokens."""

# Characters by whose scripts the size of the passages is chosen.
_SAMPLE_CHARS = 2_000
_GRAM = re.compile(f"[{GRAM_RANGES}]")
# Blank lines, ends of lines and of sentences: where a text may be cut.
_BREAK = re.compile(r"\n+|(?<=[.!?])\s+|(?<=[。！？])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A stretch of a text: characters `start` to `end`, the last one not included."""

    start: int
    end: int


def cut_passages(text: str, *, most_chars: int | None = None) -> list[Passage]:
    """Cut a text into passages of whole sentences, each of at most `most_chars` characters, by its script if not given.

    A sentence that is longer is cut behind a blank or a sign, or where there is none in its last half, anywhere. Time
    linear in the length of the text; an empty text has no passage.
    """
    most_chars = most_chars or _fitting_chars(text)
    bounds = [0]
    sentence_ends = (match.end() for match in _BREAK.finditer(text))
    last = 0
    for end in _distinct(sentence_ends, len(text)):
        if end - bounds[-1] > most_chars and last > bounds[-1]:
            bounds.append(last)
        while end - bounds[-1] > most_chars:
            bounds.append(_inside(text, bounds[-1], most_chars))
        last = end
    if last > bounds[-1]:
        bounds.append(last)
    return [Passage(start=start, end=end) for start, end in pairwise(bounds)]


def segment_passages(text: str) -> tuple[list[str], bytes]:
    """Return the index terms of a text and its packed passages, none where it is short.

    The terms of a long text are those of its passages one behind the other; of a word in a script without blanks that a
    cut has parted, the pair across the cut belongs to the passage behind it. Packed are two little-endian 32-bit
    numbers for each passage: where it ends, in characters, and how many terms it has.
    """
    words = terms(text)
    if len(words) <= LONG_TERMS:
        return words, b""
    told = _passages_with_terms(text)
    parts = [_across(text, passage.start) + part for passage, part in told]
    packed = np.array([(passage.end, len(part)) for (passage, _), part in zip(told, parts, strict=True)], "<u4")
    return [word for part in parts for word in part], packed.tobytes()


def passage_sizes(packed: bytes) -> list[int]:
    """Return the number of terms of each packed passage; none for a text that has no passages."""
    sizes: list[int] = np.frombuffer(packed, "<u4")[1::2].tolist()
    return sizes


def passage_spans(packed: bytes) -> list[Passage]:
    """Return where the packed passages begin and end; none for a text that has no passages."""
    ends: list[int] = np.frombuffer(packed, "<u4")[0::2].tolist()
    return [Passage(start=start, end=end) for start, end in pairwise([0, *ends])]


def _distinct(ends: Iterator[int], length: int) -> Iterator[int]:
    """Yield rising ends of sentences, and the end of the text last."""
    before = 0
    for end in ends:
        if before < end < length:
            yield end
            before = end
    if length:
        yield length


def _inside(text: str, start: int, most_chars: int) -> int:
    end = start + most_chars
    return next((place + 1 for place in range(end - 1, start + most_chars // 2, -1) if not text[place].isalnum()), end)


def _fitting_chars(text: str) -> int:
    sample = text[:_SAMPLE_CHARS]
    return PASSAGE_GRAMS if 2 * len(_GRAM.findall(sample)) > len(sample) else PASSAGE_CHARS


def _across(text: str, cut: int) -> list[str]:
    """Return the pair of characters across a cut, where it has parted a run of a script without blanks."""
    pair = text[cut - 1 : cut + 1] if cut else ""
    return query_terms(pair) if len(_GRAM.findall(pair)) == 2 else []


def _passages_with_terms(text: str) -> list[tuple[Passage, list[str]]]:
    """Cut a text and return each passage with its terms; one without any is joined to a neighbour."""
    told: list[tuple[Passage, list[str]]] = []
    for passage in cut_passages(text):
        words = terms(text[passage.start : passage.end])
        if told and not (words and told[-1][1]):
            before, earlier = told.pop()
            told.append((Passage(start=before.start, end=passage.end), earlier + words))
        else:
            told.append((passage, words))
    return told
