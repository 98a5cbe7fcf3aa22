"""The form of a memory's content that decides whether two are the same."""

import unicodedata


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
