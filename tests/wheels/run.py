"""Builds every distribution, checks what is in it, and runs the first example of each extra in an empty environment.

    python tests/wheels/run.py [--lowest] [NAME ...]

`--lowest` installs the oldest releases that the bounds of reme-memory allow, without it the newest. Names are those of
extras and of distributions; without one it is all of them. Packages come from the index that pip is configured with.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.support.openai_server import KEY, Completion, OpenAIServer
from tests.support.postgres_server import running_server
from tests.wheels.built import Built, build_all
from tests.wheels.environments import Environment
from tests.wheels.examples import CHECKS, Check, uvx_line

_PROCESSES = 2
_QUIET = ("REME_", "OPENAI_", "PYTHON", "VIRTUAL_ENV")


@contextmanager
def servers(place: Path) -> Iterator[dict[str, str]]:
    """Give the variables that lead to a scripted endpoint and to an empty database of PostgreSQL."""
    with OpenAIServer() as server, running_server(place) as postgres:
        server.replies(Completion(text="You surf."), Completion(text='{"facts": []}'))
        yield {
            "OPENAI_API_KEY": KEY,
            "OPENAI_BASE_URL": server.base_url,
            "REME_DATABASE_URL": postgres.url_of(postgres.make_database()),
        }


def run_check(check: Check, built: Built, place: Path, variables: dict[str, str], *, lowest: bool) -> str | None:
    """Install a distribution into an empty environment and run its example; return what went wrong, None if nothing."""
    folder = place / check.name.replace("/", "-")
    folder.mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_QUIET)}
    wanted = {name: variables[name] for name in check.variables}
    environment = Environment(folder / "env", variables={**kept, **wanted}, lowest=lowest)
    try:
        # "Lowest" is about what is asked for and, of a folder of source, about what that asks for; not so of a wheel.
        wanted_first = built.requirement(check.distribution, check.extra, from_source=lowest)
        environment.install([wanted_first, *check.besides], links=built.folder)
        for command in check.commands(folder / "work"):
            environment.run(command, cwd=folder / "work")
        if check.uvx:
            variables_of_line, command = uvx_line()
            tool = Environment(
                folder / "tool", variables={**kept, **variables_of_line, "REME_DIR": str(folder / "memory")}
            )
            tool.run_tool(built.requirement(check.distribution, check.extra), command, links=built.folder)
    except subprocess.CalledProcessError as exc:
        return f"{exc}\n{exc.stdout}\n{exc.stderr}"
    finally:
        shutil.rmtree(environment.folder, ignore_errors=True)
    return None


def main() -> int:
    arguments = argparse.ArgumentParser(description="Build, check and try every distribution.")
    arguments.add_argument("names", nargs="*", help="extras and distributions; all without one")
    arguments.add_argument("--lowest", action="store_true", help="with the oldest releases that the bounds allow")
    chosen = arguments.parse_args()
    of = [check for check in CHECKS if check.distribution == "reme-memory" or not chosen.lowest]
    checks = [check for check in of if not chosen.names or check.name in chosen.names]
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="reme-wheels-") as folder, servers(Path(folder) / "server") as variables:
        place = Path(folder)
        built = build_all(place / "dist")
        print(f"built and checked {', '.join(sorted(built.versions))} in {time.monotonic() - begun:.0f} s", flush=True)

        def run(check: Check) -> str | None:
            began = time.monotonic()
            wrong = run_check(check, built, place, variables, lowest=chosen.lowest)
            verdict, took = "ok" if wrong is None else "FAILED", time.monotonic() - began
            print(f"{verdict:6}  {check.name}  {took:.0f} s", flush=True)
            return wrong

        with ThreadPoolExecutor(_PROCESSES) as pool:
            failures = {check.name: wrong for check, wrong in zip(checks, pool.map(run, checks), strict=True) if wrong}
    for name, wrong in failures.items():
        print(f"\n{name}: {wrong}")
    print(f"{len(checks) - len(failures)} of {len(checks)} in {time.monotonic() - begun:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
