"""Prompts as files: front matter (name, version, variables), then the text, one file per language."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from reme_core.errors import ConfigurationError

_VARIABLE = re.compile(r"\{\{([a-z_]+)\}\}")
_FIELDS = frozenset({"name", "version", "variables"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A text with places for its variables, written `{{name}}`."""

    name: str
    version: str
    language: str
    variables: frozenset[str]
    text: str

    @property
    def label(self) -> str:
        """Name, language and version, as transcripts record them."""
        return f"{self.name}.{self.language}@{self.version}"

    def fill(self, values: Mapping[str, str]) -> str:
        """Return the text with the variables in their places; a value is never read for places again.

        Raises:
            ConfigurationError: A variable is missing, or is none of this prompt's.
        """
        if values.keys() != self.variables:
            missing, unknown = self.variables - values.keys(), values.keys() - self.variables
            msg = f"prompt {self.label}: missing {sorted(missing)}, unknown {sorted(unknown)}"
            raise ConfigurationError(msg)
        return _VARIABLE.sub(lambda match: values[match[1]], self.text)


def parse_prompt(source: str, language: str, where: str) -> Prompt:
    """Read a prompt.

    Raises:
        ConfigurationError: There is no front matter, a field is missing or unknown, or the variables named there are
            not those of the text.
    """
    parts = source.split("---\n", 2)
    if len(parts) != 3 or parts[0].strip():
        msg = f"{where}: wanted front matter between two lines of '---', then the text"
        raise ConfigurationError(msg)
    fields = dict(_field(line, where) for line in parts[1].splitlines() if line.strip())
    if fields.keys() != _FIELDS:
        msg = f"{where}: front matter has {sorted(fields)}, wanted {sorted(_FIELDS)}"
        raise ConfigurationError(msg)
    named = frozenset(name.strip() for name in fields["variables"].split(",") if name.strip())
    used = frozenset(_VARIABLE.findall(parts[2]))
    if named != used:
        msg = f"{where}: declares the variables {sorted(named)}, its text uses {sorted(used)}"
        raise ConfigurationError(msg)
    return Prompt(
        name=fields["name"], version=fields["version"], language=language, variables=named, text=parts[2].strip()
    )


@cache
def load_prompt(package: str, name: str, language: str) -> Prompt:
    """Read `prompts/<name>.<language>.md` of a package; once per process.

    Raises:
        ConfigurationError: There is no such file, or it is no prompt.
    """
    file = resources.files(package).joinpath("prompts", f"{name}.{language}.md")
    try:
        source = file.read_text(encoding="utf-8")
    except FileNotFoundError as exc:
        msg = f"there is no prompt {name!r} in {language!r} in {package}"
        raise ConfigurationError(msg) from exc
    return parse_prompt(source, language, f"{package}/prompts/{name}.{language}.md")


def _field(line: str, where: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon:
        msg = f"{where}: {line!r} in the front matter is not 'name: value'"
        raise ConfigurationError(msg)
    return name.strip(), value.strip()
