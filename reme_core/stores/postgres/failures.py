"""PostgreSQL's errors as ours: what may be tried again, and what each means."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors
from pydantic import ValidationError

from reme_core.errors import (
    ConfigurationError,
    ConflictError,
    CorruptDataError,
    InvalidInputError,
    ReMeError,
    SchemaVersionError,
    StorageFullError,
    StoreAccessError,
    StoreError,
    StoreUnavailableError,
)
from reme_core.schema import describe
from reme_core.stores.postgres.settings import ServerSettings

# Source of all codes: https://www.postgresql.org/docs/current/errcodes-appendix.html
_STARTING_OR_STOPPING = ("57P01", "57P02", "57P03", "57P05", "25P03")


def is_lost(exc: psycopg.Error, *, writes: bool = False) -> bool:
    """Tell whether the server, or the way to it, is lost for now: stopped, restarted, or no longer the primary.

    Of connections that can't be made, those that the server refused (a wrong password, say) have no code.
    """
    if isinstance(exc, errors.ReadOnlySqlTransaction):
        return writes  # the server has become a standby; another one takes over
    if exc.sqlstate is not None:
        return exc.sqlstate.startswith("08") or exc.sqlstate in _STARTING_OR_STOPPING
    return isinstance(exc, psycopg.OperationalError | psycopg.InterfaceError) and not _is_refused(exc)


def is_overtaken(exc: psycopg.Error) -> bool:
    """Tell whether another transaction came first: the same work may well succeed now.

    A statement that expects rows which are not there any more divides by their number.
    """
    return isinstance(
        exc,
        errors.SerializationFailure | errors.DeadlockDetected | errors.UniqueViolation | errors.DivisionByZero,
    )


def is_clash(exc: psycopg.Error) -> bool:
    """Tell whether a key is taken, which may be so for good."""
    return isinstance(exc, errors.UniqueViolation)


_REFUSALS = (
    "authentication failed",
    "no pg_hba.conf entry",
    "does not exist",
    "no password supplied",
    "certificate",
    "is not permitted to log in",
    "permission denied for database",
)


def _is_refused(exc: psycopg.Error) -> bool:
    # libpq tells no code of a connection that was refused: only the server's words.
    return any(words in str(exc) for words in _REFUSALS)


def _is_unusable(exc: psycopg.Error) -> bool:
    # What libpq says before it looks for the server.
    return str(exc).startswith(("connection is bad: invalid", "connection is bad: definition of service"))


@contextmanager
def mapped_errors(settings: ServerSettings) -> Iterator[None]:
    """Raise what an error within means (StoreError, InvalidInputError); no message holds a stored text or a secret."""
    try:
        yield
    except ReMeError:
        raise
    except psycopg.Error as exc:
        raise mapped(exc, settings) from None  # its text may hold a value, its connection a password
    except ValidationError as exc:
        how = describe(exc, "it", with_values=False)
        msg = f"{settings.shown} holds a value that can't be what was written ({how}): restore a backup"
        raise CorruptDataError(msg) from exc
    except (OverflowError, UnicodeEncodeError) as exc:
        msg = f"a value can't be stored or looked for: {exc}"
        raise InvalidInputError(msg) from exc


def mapped(exc: psycopg.Error, settings: ServerSettings) -> ReMeError:
    """Return what an error means, with what to do."""
    place = settings.shown
    told = settings.without_secrets(_told(exc))
    match exc:
        case errors.DiskFull():
            return StorageFullError(f"no space left at {place}; nothing of this call was written: free some space")
        case errors.UniqueViolation():
            return ConflictError(f"{place}: another writer came first ({told}): read again, then decide")
        case errors.SerializationFailure() | errors.DeadlockDetected() | errors.DivisionByZero():
            return StoreUnavailableError(f"{place} has too many writers of the same rows at once: try again")
        case errors.LockNotAvailable():
            return StoreUnavailableError(
                f"{place}: another writer of the same scope is at work: try again, or raise lock_timeout_s"
            )
        case errors.QueryCanceled():
            return StoreUnavailableError(
                f"{place}: a statement took longer than allowed, nothing was written: try again, or raise"
                " statement_timeout_s"
            )
        case errors.ReadOnlySqlTransaction():
            return StoreUnavailableError(
                f"{place} can only be read, as a standby server is (add target_session_attrs=read-write to the URL),"
                " or a server or role with default_transaction_read_only"
            )
        case errors.InsufficientPrivilege():
            return StoreAccessError(
                f"{place} refused it ({told}): a row of another scope, or a role without the right: see `reme doctor`"
            )
        case (
            errors.UndefinedTable() | errors.UndefinedColumn() | errors.UndefinedFunction() | errors.InvalidSchemaName()
        ):
            return SchemaVersionError(f"{place} lacks a table of {settings.schema!r} ({told}): run `reme migrate URL`")
        case errors.DataCorrupted() | errors.IndexCorrupted():
            return CorruptDataError(f"{place} has damaged pages ({told}): restore a backup")
        case errors.DataError() | errors.ProgramLimitExceeded():
            return InvalidInputError(f"a value can't be stored or looked for: {told}")
        case _ if exc.sqlstate is None and _is_unusable(exc):
            return ConfigurationError(f"url: an option of {place} can't be used: {told}")
        case _ if (exc.sqlstate is None and _is_refused(exc)) or (exc.sqlstate or "").startswith("28"):
            return StoreAccessError(f"{place} refused the connection ({told}): check role, password and database")
        case _ if is_lost(exc) or (exc.sqlstate or "").startswith("53"):
            return StoreUnavailableError(f"{place} can't be reached, or takes no more ({told}): try again")
        case _:
            return StoreError(f"PostgreSQL failed at {place}: {told} ({exc.sqlstate or type(exc).__name__})")


def _told(exc: psycopg.Error) -> str:
    """Return the first line of what the server said; further ones have values, or the statement."""
    text = exc.diag.message_primary or str(exc)
    return text.strip().partition("\n")[0]
