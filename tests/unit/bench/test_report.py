"""The report: hostile texts stay texts, nothing is loaded or run, and the numbers are those of the files."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import pytest
from reme_bench.report import read_runs, render, write_report
from reme_bench.report_pictures import MeasuredMean, interval_picture, shown
from reme_bench.results import (
    AnswerFailure,
    Answering,
    Dataset,
    Machine,
    Marks,
    Milliseconds,
    NotMeasured,
    Prompts,
    Results,
    ResultsFileError,
    Row,
    System,
)
from reme_bench.summary import summarised

from reme_core.errors import InvalidInputError

HOSTILE = (
    "</title></style></svg></pre><script>boom()</script><img src=//evil.example/x onerror=boom()>\"' \u202e{{ 7*7 }}"
)
# What no attribute of a page that loads and runs nothing has.
ACTIVE = {"src", "href", "srcset", "action", "formaction", "data", "poster", "xlink:href", "background"}


class Page(HTMLParser):
    """Collects the tags and attributes of a page, and its visible text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def results(
    words: str = "plain", sha256: str = "ab", systems: Sequence[str] = ("reme", "BM25"), name: str = "LoCoMo"
) -> Results:
    rows = [
        Row(
            system=system,
            conversation=f"c {words}",
            question_id=f"q{number} {words}",
            question=f"Asked {number}? {words}",
            category=f"{'one' if number % 2 else 'two'} {words}",
            answerable=number != 3,
            figures={"recall@10": float(place == 0), f"figure {words}": 0.25},
            top_score=0.5 / (number + 1),
            milliseconds=2.5,
            ids=tuple(f"{words} D1:{id_}" for id_ in range(12)),
            gold=f"gold {words}",
            notes=f"notes {words}",
            answer=f"answer {words}",
            marks=Marks(strict=0, lenient=1),
        )
        for number in range(4)
        for place, system in enumerate(systems)
    ]
    failure = AnswerFailure(
        system=systems[0], conversation="c", question_id="q", stage="judge", error="ModelError", message=words
    )
    return summarised(
        Results(
            made_at=datetime(2026, 11, 23, tzinfo=UTC),
            dataset=Dataset(
                name=name,
                file=words,
                sha256=sha256,
                checksum_known=False,
                licence=words,
                conversations=1,
                questions=4,
                messages=9,
            ),
            machine=Machine(python="3.12", platform=words, cpus=2),
            versions={words: words},
            systems=tuple(
                System(
                    name=system,
                    kind="baseline" if place else "reme",
                    bytes=1234,
                    search_ms=Milliseconds(p50=1, p95=4),
                    not_measured=(NotMeasured(what="append_ms", why=words),),
                )
                for place, system in enumerate(systems)
            ),
            rows=tuple(rows),
            prompts=Prompts(reader=f"Read! {words}", judge=f"Judge! {words}"),
            answering=Answering(reader=words, judge=words, budget=1024, failures=(failure,)),
        )
    )


def written(folder: Path, **files: Results) -> list[Path]:
    for name, made in files.items():
        made.write(folder / f"{name}.json")
    return [folder / f"{name}.json" for name in files]


def test_texts_of_a_file_stay_texts_and_nothing_is_run_or_loaded(tmp_path: Path) -> None:
    made = results(HOSTILE, systems=(f"reme {HOSTILE}", "BM25"), name=HOSTILE)
    page = Page(render(read_runs(written(tmp_path, one=made))))
    assert not {"script", "img", "iframe", "link", "object", "embed", "form", "a", "base"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on") or name in ACTIVE]
    assert page.tags.count("title") == 1 + page.tags.count("g")
    assert page.tags.count("style") == 1
    assert "<script>boom()</script>" in page.text
    assert "\u202e" not in page.text
    assert "49" not in page.text.partition("Questions")[2]
    assert "url(" not in render(read_runs(written(tmp_path, one=results())))


def test_page_tells_figures_costs_gaps_answers_and_each_question(tmp_path: Path) -> None:
    text = Page(render(read_runs(written(tmp_path, one=results())))).text
    words = " ".join(text.split())
    for told in (
        "100.0 100.0 to 100.0",
        "reme less BM25",
        "1.0 / 4.0",
        "1,234",
        "reme: append_ms, plain",
        "not the checksum of the published file",
        "Read! plain",
        "Judge! plain",
        "1 answers or marks are missing",
        "reme, q, judge: ModelError: plain",
        "Gold answer: gold plain",
        "in the main right",
        "and 2 more",
        "can't be answered",
    ):
        assert told in words, told
    assert words.count("Asked 2? plain") == 1


def test_files_of_one_data_set_stand_side_by_side_and_others_below(tmp_path: Path) -> None:
    paths = written(tmp_path, monday=results(), tuesday=results(), other=results(sha256="cd", name="BEAM"))
    page = Page(render(read_runs(paths)))
    assert "reme (monday)" in page.text
    assert "reme (tuesday)" in page.text
    assert page.tags.count("h2") == 2
    assert page.text.count("Asked 2? plain") == 2


def test_report_without_anything_to_read_says_what_is_wanted(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="reme bench"):
        read_runs([])
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(ResultsFileError, match=r"x\.json"):
        write_report([tmp_path / "x.json"], tmp_path / "out.html")


def test_axis_of_shares_is_whole_that_of_differences_has_zero_in_the_middle() -> None:
    shares = interval_picture([MeasuredMean("a", 0.5, 0.25, 1.0, 3)])
    assert ([tick.text for tick in shares.ticks], shares.zero) == (["0.0", "25.0", "50.0", "75.0", "100.0"], None)
    (lane,) = shares.lanes
    assert lane.low < lane.mean < lane.high
    gaps = interval_picture([MeasuredMean("a", 0.3, 0.2, 0.4, 3)], around_zero=True)
    assert gaps.zero == 500.0
    assert [tick.text for tick in gaps.ticks][::2] == ["-40.0", "0.0", "40.0"]
    assert interval_picture([], share=False).lanes == []
    assert shown(1500.0, share=False) == "1,500"
