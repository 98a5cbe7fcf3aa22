"""Distributions as they would be published: built from their source archives, and looked at file by file."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Built:
    """A folder of wheels, and the version of each distribution in it; `sources`: what the wheels were built from."""

    folder: Path
    versions: dict[str, str]

    @property
    def sources(self) -> Path:
        return self.folder / "unpacked"

    def requirement(self, distribution: str, extra: str, *, from_source: bool = False) -> str:
        """Return what an installer is to install, with an extra: the wheel, or the source that it was built from."""
        stem = f"{distribution.replace('-', '_')}-{self.versions[distribution]}"
        place = self.sources / stem if from_source else self.folder / f"{stem}-py3-none-any.whl"
        return f"{distribution}{f'[{extra}]' if extra else ''} @ {place.as_uri()}"


def projects() -> list[Path]:
    """Return the folders with a distribution each: the root, those of `packages`, and the benchmarks."""
    settings = [*ROOT.glob("packages/*/pyproject.toml"), *ROOT.glob("benchmarks/pyproject.toml")]
    return [ROOT, *sorted(path.parent for path in settings)]


def distribution_of(project: Path) -> str:
    """Return the name that a project is published under."""
    return str(tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]["name"])


def build_all(folder: Path) -> Built:
    """Build the source archive of each project and the wheel from that archive; check both."""
    return Built(folder, dict(_build(project, folder) for project in projects()))


def _build(project: Path, folder: Path) -> tuple[str, str]:
    settings = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))
    name, version = settings["project"]["name"], settings["project"]["version"]
    stem = f"{name.replace('-', '_')}-{version}"
    _hatch(project, folder, "sdist")
    archive, unpacked = folder / f"{stem}.tar.gz", folder / "unpacked"
    with tarfile.open(archive) as opened:
        opened.extractall(unpacked, filter="data")
    _hatch(unpacked / stem, folder, "wheel")
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl") as opened:
        found = {entry for entry in opened.namelist() if not entry.endswith("/")}
    packages = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    included = [entry.strip("/") for entry in settings["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]]
    code = {entry for entry in found if ".dist-info/" not in entry}
    _compare(f"the wheel of {name}", code, _files(project, packages))
    added = {"PKG-INFO", ".gitignore"}  # by Hatch, whatever is named
    _compare(f"the source archive of {name}", _files(unpacked / stem, ["."]) - added, _files(project, included))
    _check_claims(settings["project"], found, stem)
    return name, version


def _hatch(project: Path, folder: Path, target: str) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(folder)]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True)
    if done.returncode:
        msg = f"the {target} of {project} could not be built:\n{done.stdout}{done.stderr}"
        raise SystemExit(msg)


def _files(folder: Path, names: list[str]) -> set[str]:
    """Return the files under some names of a folder, as names with slashes; what Python compiles is none of them."""
    found = [path for name in names for path in (folder / name, *(folder / name).rglob("*"))]
    kept = [path for path in found if path.is_file() and "__pycache__" not in path.parts]
    return {path.relative_to(folder).as_posix() for path in kept}


def _compare(what: str, found: set[str], wanted: set[str]) -> None:
    if found != wanted:
        msg = f"{what} lacks {sorted(wanted - found)} and has besides {sorted(found - wanted)}"
        raise SystemExit(msg)


def _check_claims(project: dict[str, Any], found: set[str], stem: str) -> None:
    """Look for what a project says of itself: its licence, the marker of types in each package; and for no tests."""
    missing = {f"{stem}.dist-info/licenses/{name}" for name in project.get("license-files", [])} - found
    code = {entry for entry in found if entry.endswith(".py")}
    typed = tuple(entry.removesuffix("py.typed") for entry in found if entry.endswith("/py.typed"))
    if "Typing :: Typed" in project.get("classifiers", []):
        missing |= {f"py.typed beside {entry}" for entry in code if not entry.startswith(typed)}
    strange = {entry for entry in found if "/test_" in entry or entry.split("/")[0] in {"tests", "docs"}}
    if missing or strange:
        msg = f"the wheel of {project['name']} lacks {sorted(missing)} and should not have {sorted(strange)}"
        raise SystemExit(msg)
