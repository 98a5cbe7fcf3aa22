"""Exit codes, and which error has which."""

from __future__ import annotations

from enum import IntEnum

from pydantic import JsonValue

from reme_core.cli.wording import in_commands, json_line, one_line
from reme_core.errors import (
    ConfigurationError,
    ConflictError,
    CorruptDataError,
    DimensionMismatchError,
    EmbeddingModelMismatchError,
    InvalidInputError,
    InvalidLinesError,
    ModelError,
    NotFoundError,
    PartialFailureError,
    RecordMismatchError,
    ReMeError,
    SchemaVersionError,
    StorageFullError,
    StoreAccessError,
    StoreUnavailableError,
    UnsupportedFilterError,
)


class ExitCode(IntEnum):
    """What a script may tell from a command's end."""

    DONE = 0
    NOTHING_FOUND = 1
    BAD_INPUT = 2
    NOT_FOUND = 3
    UNAVAILABLE = 4
    UNREADABLE = 5
    MODEL_FAILED = 6
    NO_ACCESS = 7
    CONFLICT = 8
    PARTLY_DONE = 9
    UNEXPECTED = 70  # EX_SOFTWARE of sysexits.h
    INTERRUPTED = 130  # 128 + SIGINT, as shells have it
    PIPE_CLOSED = 141  # 128 + SIGPIPE


_CODES: tuple[tuple[type[ReMeError], ExitCode], ...] = (
    (InvalidInputError, ExitCode.BAD_INPUT),
    (ConfigurationError, ExitCode.BAD_INPUT),
    (UnsupportedFilterError, ExitCode.BAD_INPUT),
    (DimensionMismatchError, ExitCode.BAD_INPUT),
    (EmbeddingModelMismatchError, ExitCode.BAD_INPUT),
    (NotFoundError, ExitCode.NOT_FOUND),
    (StoreUnavailableError, ExitCode.UNAVAILABLE),
    (StorageFullError, ExitCode.UNAVAILABLE),
    (CorruptDataError, ExitCode.UNREADABLE),
    (RecordMismatchError, ExitCode.UNREADABLE),
    (SchemaVersionError, ExitCode.UNREADABLE),
    (ModelError, ExitCode.MODEL_FAILED),
    (StoreAccessError, ExitCode.NO_ACCESS),
    (ConflictError, ExitCode.CONFLICT),
    (PartialFailureError, ExitCode.PARTLY_DONE),
)
"""The first class that an error is an instance of decides."""


def exit_code(error: BaseException) -> ExitCode:
    """Return the exit code of an error."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), ExitCode.UNEXPECTED)


def describe_error(error: Exception, *, as_json: bool) -> str:
    """Tell an error in one line: for people, or as JSON for programs."""
    message = one_line(in_commands(error) if isinstance(error, ReMeError) else str(error))
    if as_json and isinstance(error, InvalidLinesError):
        return _lines_failure(error, message)
    if not isinstance(error, ReMeError):
        message = f"unexpected {type(error).__name__}: {message}"
    return failure_line(
        message, kind=type(error).__name__, code=exit_code(error), retryable=_retryable(error), as_json=as_json
    )


def failure_line(message: str, *, kind: str, code: ExitCode, retryable: bool = False, as_json: bool) -> str:
    """Write a failure in one line: for people, or as JSON for programs."""
    if not as_json:
        return f"reme: {message}"
    return json_line({"error": _failure(message, kind=kind, code=code, retryable=retryable)})


def _failure(message: str, *, kind: str, code: ExitCode, retryable: bool) -> dict[str, JsonValue]:
    return {"type": kind, "message": message, "exit_code": int(code), "retryable": retryable}


def _lines_failure(error: InvalidLinesError, message: str) -> str:
    """Write the failure of a file as JSON, with all its bad lines; the message names the first of them only."""
    lines: list[JsonValue] = [{"line": number, "reason": reason} for number, reason in error.lines]
    failure = _failure(message, kind=type(error).__name__, code=exit_code(error), retryable=False)
    return json_line({"error": {**failure, "lines": lines}})


def _retryable(error: Exception) -> bool:
    if isinstance(error, PartialFailureError):
        return error.all_retryable
    return isinstance(error, ReMeError) and error.retryable
