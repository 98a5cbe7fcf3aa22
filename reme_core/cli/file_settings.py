"""Settings from `reme.toml` and `.env` of the folder that the command line is called in.

They stand for environment variables that are not set: the environment comes first, then `.env`, then `reme.toml`.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from reme_core.errors import ConfigurationError

TOML, DOT_ENV = Path("reme.toml"), Path(".env")

_NAMES: Mapping[str, frozenset[str]] = {
    "": frozenset({"user", "space", "dir", "wait", "web_tools"}),
    "database": frozenset({"url"}),
    "llm": frozenset({"model", "api_key", "base_url"}),
    "embedding": frozenset({"model", "dimension", "api_key", "base_url"}),
}
_TAKEN = re.compile(r"(REME|OPENAI)_[A-Z_]+")
_LINE = re.compile(r"""(?:export\s+)?(\w+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^#]*?))\s*(?:\#.*)?""")


@contextmanager
def settings_of_files(toml: Path = TOML) -> Iterator[None]:
    """Let the variables of the files stand in the environment while a command runs; `toml`: another than `reme.toml`.

    Raises:
        ConfigurationError: A file that can't be read, a name that means nothing, or an address that would be sent a key
            of another origin.
    """
    found = {**_read_toml(toml), **_read_dot_env()}
    fresh = {name: value for name, value in found.items() if value and not os.environ.get(name)}
    _check_addresses(fresh)
    os.environ.update(fresh)
    try:
        yield
    finally:
        for name in fresh:
            os.environ.pop(name, None)


def _check_addresses(fresh: Mapping[str, str]) -> None:
    """Refuse an address from a file with a key from the environment: a folder of somebody else could have it sent."""
    for part in ("REME_LLM", "REME_EMBEDDING"):
        addresses = [name for name in (f"{part}_BASE_URL", "OPENAI_BASE_URL") if name in fresh]
        key = next(
            (name for name in (f"{part}_API_KEY", "OPENAI_API_KEY") if os.environ.get(name) or name in fresh), None
        )
        if addresses and key is not None and key not in fresh:
            msg = (
                f"{addresses[0]} comes from a file in this folder and {key} from the environment: the key would go to "
                "that address. Set both in the file, or both in the environment"
            )
            raise ConfigurationError(msg)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8") if path.is_file() else ""
    except (OSError, UnicodeDecodeError) as exc:
        msg = f"{str(path)!r} can't be read: wanted a text file in UTF-8"
        raise ConfigurationError(msg) from exc


def _read_dot_env() -> dict[str, str]:
    """Read `NAME=value` lines; names of other programs are left alone."""
    found = {}
    for line in _read(DOT_ENV).splitlines():
        match = _LINE.fullmatch(line.strip())
        if match is not None and _TAKEN.fullmatch(match[1]):
            found[match[1]] = next(value for value in match.groups()[1:] if value is not None)
    return found


def _read_toml(path: Path) -> dict[str, str]:
    try:
        settings = tomllib.loads(_read(path))
    except tomllib.TOMLDecodeError as exc:
        msg = f"{str(path)!r} is no TOML: {exc}"
        raise ConfigurationError(msg) from exc
    tables = {table: value for table, value in settings.items() if isinstance(value, dict)}
    tables[""] = {name: value for name, value in settings.items() if name not in tables}
    found = {}
    for table, values in tables.items():
        for name, value in values.items():
            if name not in _NAMES.get(table, ()) or not isinstance(value, (str, int, float)):
                known = "; ".join(f"{key} {', '.join(sorted(names))}".strip() for key, names in _NAMES.items())
                msg = f"{str(path)!r}: {f'{table}.{name}'.lstrip('.')!r:.60} is no setting; there are {known}"
                raise ConfigurationError(msg)
            found[f"REME_{table}_{name}".upper().replace("__", "_")] = str(value)
    return found
