"""The examples of the page about PostgreSQL run on a server."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.docs.doc_pages import ROOT, Page, examples_of


def test_the_examples_of_the_page_run(
    shared_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REME_DATABASE_URL", shared_url)
    with asyncio.Runner() as runner:
        page = Page(runner)
        for example in examples_of((ROOT / "docs/postgres.md").read_text(encoding="utf-8")):
            if example.is_run:
                page.run(example)
    assert list(tmp_path.iterdir()) == []
