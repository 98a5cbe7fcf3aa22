"""Names of arguments of `ReMe`, told as the options that they are on the command line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from reme_core.errors import InvalidInputError, InvalidLinesError

# An argument at the beginning of what is refused, or one whose name is no word of a sentence; what is quoted is data.
_ARGUMENT = re.compile(r"^[a-z_]+(?=[:\[])|(?<![\w'\"/.-])[a-z]+_[a-z_]+\b")


@contextmanager
def option_name(options: Mapping[str, str]) -> Iterator[None]:
    """Let what is refused within be told by the names of options; a refusal that lists lines is left as it is."""
    try:
        yield
    except InvalidLinesError:
        raise
    except InvalidInputError as exc:
        told = _ARGUMENT.sub(lambda match: options.get(match[0], match[0]), str(exc))
        raise InvalidInputError(told) from exc
