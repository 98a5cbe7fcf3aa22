"""The inspector in a real browser: `reme inspect` as a process, and Debian's chromium in front of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
AXE = Path(os.environ.get("REME_AXE", ".venv-browser/node_modules/axe-core/axe.min.js"))
MOST_BYTES = 150_000
NARROW = 360
# It is never asked: with one, the page of the dry run has its form.
_MODEL = {"REME_LLM_MODEL": "none", "REME_LLM_API_KEY": "none", "REME_LLM_BASE_URL": "http://127.0.0.1:9/v1"}


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Give a running browser."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make browser does it")
    if not Path(CHROMIUM).exists():
        pytest.skip("there is no chromium: apt-get install chromium fonts-noto-cjk")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass
class Window:
    """A window of the browser that is signed in, and what went wrong in it."""

    page: Any
    base: str
    faults: list[str] = field(default_factory=list)

    def watch(self) -> None:
        """Note errors of the console, and requests that fail or go elsewhere."""
        self.page.on("console", lambda message: self._note(message.type in {"error", "warning"}, message.text))
        self.page.on("pageerror", lambda error: self._note(True, str(error)))
        # What is still on its way when the next page is opened is let go.
        self.page.on(
            "requestfailed", lambda request: self._note(request.failure != "net::ERR_ABORTED", f"failed: {request.url}")
        )
        self.page.on("request", lambda request: self._note(not request.url.startswith(self.base), request.url))
        self.page.on("response", lambda answer: self._note(answer.status >= 400, f"{answer.status} {answer.url}"))

    def _note(self, is_fault: bool, words: str) -> None:
        if is_fault:
            self.faults.append(words)

    def open(self, path: str) -> None:
        """Open a page of the inspector."""
        self.page.goto(f"{self.base}/inspect/{path}")

    def check(self) -> None:
        """Fail where a page is broken, too wide or too heavy."""
        assert self.faults == []
        width = self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert width <= 0, f"{self.page.url} scrolls sideways by {width}"
        assert len(self.page.content().encode()) <= MOST_BYTES


@pytest.fixture
def window_on(chromium: Any) -> Iterator[Callable[..., Window]]:
    """Give what opens a window on the inspector of a folder: `options` are those of a browser's context."""
    started: list[subprocess.Popen[str]] = []
    contexts = []

    def open_window(folder: Path, user: str = "ana", **options: Any) -> Window:
        command = ["inspect", "--dir", str(folder), "--user", user, "--write", "--no-browser"]
        process = subprocess.Popen(
            [sys.executable, "-m", "reme_core.cli", *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **_MODEL},
        )
        started.append(process)
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        context = chromium.new_context(**options)
        contexts.append(context)
        window = Window(context.new_page(), url.partition("/inspect")[0])
        window.watch()
        window.page.goto(url)
        return window

    yield open_window
    for context in contexts:
        context.close()
    for process in started:
        process.terminate()
        process.communicate(timeout=60)
