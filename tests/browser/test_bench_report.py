"""The report of benchmarks in a browser: nothing is asked for elsewhere, nothing is wider than the window."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import NARROW
from tests.unit.bench.test_report import HOSTILE, results, written

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("width", [NARROW, 1280])
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_report_fits_its_window_and_stays_by_itself(chromium: Any, tmp_path: Path, width: int, colours: str) -> None:
    from reme_bench.report import write_report

    long = results(HOSTILE, systems=("reme, " + "with a name that has no end " * 4, "BM25"))
    write_report(written(tmp_path, one=long, two=results(HOSTILE)), tmp_path / "report.html")
    page = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=colours)
    faults: list[str] = []
    page.on("console", lambda message: faults.append(message.text))
    page.on("request", lambda request: faults.append(request.url) if "report.html" not in request.url else None)
    page.goto((tmp_path / "report.html").as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    assert faults == []
    page.close()
