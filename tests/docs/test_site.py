"""The manual as a site: what can be told without building it, which `make site` does."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

import pytest
import yaml

import reme_agentscope
import reme_core
import reme_langchain
from reme_core import errors
from tests.docs.built_site import faults
from tests.docs.doc_pages import ROOT, Example, examples_of, pages

_SETTINGS = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
_IDENTIFIER = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)


def _named(part: object) -> list[str]:
    """Return the pages that a part of the navigation names."""
    if isinstance(part, str):
        return [part]
    parts = part.values() if isinstance(part, dict) else part
    assert isinstance(part, (dict, list))
    return [page for item in parts for page in _named(item)]


def _api_names() -> set[str]:
    """Return what the pages of the API show, by its last name."""
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "api").glob("*.md")]
    return {name.rpartition(".")[2] for text in texts for name in _IDENTIFIER.findall(text)}


def _slugs(text: str, *, of_a_forge: bool) -> set[str]:
    """Return the anchors of a page's headings, as a forge or the site makes them; the second of a kind has a number."""
    anchors: set[str] = set()
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    for heading in re.findall(r"^#+ (.+)$", prose, re.MULTILINE):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
        if of_a_forge:
            slug = re.sub(r"[^\w\- ]", "", shown).replace(" ", "-")
        else:
            plain = unicodedata.normalize("NFKD", shown).encode("ascii", "ignore").decode()
            slug = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip())
        again = f"{slug}-1" if of_a_forge else f"{slug}_1"
        anchors.add(again if slug in anchors else slug)
    return anchors


def test_the_navigation_names_every_page_once() -> None:
    named = _named(_SETTINGS["nav"])
    assert sorted(named) == sorted(str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md"))


def test_every_folder_of_pages_has_one_that_leads_to_the_others() -> None:
    docs = ROOT / "docs"
    folders = {page.parent for page in docs.rglob("*.md") if page.parent != docs}
    assert [folder.name for folder in folders if not (folder / "index.md").is_file()] == []
    api = (docs / "api" / "index.md").read_text(encoding="utf-8")
    others = {page.name for page in (docs / "api").glob("*.md")} - {"index.md"}
    assert set(re.findall(r"^\| \[.*\]\((.*\.md)\) \|", api, re.MULTILINE)) == others


def test_every_page_whose_code_awaits_outside_a_function_says_how_it_is_run() -> None:
    told = re.compile(r"ow to run the blocks\]\((guide|index)\.md\)|`await` may stand outside a function")
    awaiting = [
        page for page in (ROOT / "docs").rglob("*.md") if any(map(_awaits, examples_of(page.read_text("utf-8"))))
    ]
    assert len(awaiting) > 30
    assert [str(page.relative_to(ROOT)) for page in awaiting if not told.search(page.read_text("utf-8"))] == []


def _awaits(example: Example) -> bool:
    if example.kind != "python":
        return False
    try:
        compile(example.body, "example", "exec")
    except SyntaxError:
        return True
    return False


def test_every_link_to_a_place_on_a_page_holds_on_a_forge_and_in_the_site() -> None:
    wrong = []
    for page in pages():
        if "provider_pages" in page.parts:  # for another project's site
            continue
        for target, anchor in re.findall(r"\]\(([^)#:\s]*)#([^)\s]+)\)", page.read_text(encoding="utf-8")):
            text = (page.parent / target if target else page).read_text(encoding="utf-8")
            wrong += [
                f"{page.relative_to(ROOT)}: {target}#{anchor}"
                for of_a_forge in (True, False)
                if anchor not in _slugs(text, of_a_forge=of_a_forge)
            ]
    assert wrong == []


def test_every_public_name_is_in_the_api_reference() -> None:
    public = {*reme_core.__all__, *reme_langchain.__all__, *reme_agentscope._PLACES}
    public |= {
        name for name, value in vars(errors).items() if isinstance(value, type) and value.__module__ == errors.__name__
    }
    assert public - _api_names() == {"__version__"}


def test_every_call_of_a_memory_is_in_the_api_reference() -> None:
    shown = re.findall(
        r"^        - (\w+)$", (ROOT / "docs" / "api" / "reme.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    calls = {name for name in dir(reme_core.ReMe) if not name.startswith("_")}
    parts = {name for name in calls if isinstance(getattr(reme_core.ReMe, name), property)} - {"in_space"}
    assert sorted(shown) == sorted(calls - parts)


def test_nothing_of_the_site_is_asked_from_elsewhere() -> None:
    assert _SETTINGS["theme"]["font"] is False
    assert "repo_url" not in _SETTINGS  # the theme would ask the forge for its stars
    assert not {"analytics", "extra_javascript"} & {*_SETTINGS, *_SETTINGS["extra"]}


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('<a href="two.html#there">', None),
        ('<a href="https://example.org/">', None),
        ('<a href="three.html">', "index.html: three.html leads nowhere"),
        ('<a href="two.html#gone">', "index.html: two.html#gone has no such place"),
        ('<script src="https://cdn.example/x.js"></script>', "index.html: asks https://cdn.example/x.js"),
        ('<link rel="stylesheet" href="//fonts.example/x.css">', "index.html: asks //fonts.example/x.css"),
        ("<style>@import 'https://fonts.example/x'</style>", "index.html: a style of another host"),
    ],
)
def test_the_check_of_a_built_site_tells_a_wrong_page(tmp_path: Path, body: str, fault: str | None) -> None:
    (tmp_path / "index.html").write_text(body)
    (tmp_path / "two.html").write_text('<h2 id="there">')
    assert faults(tmp_path) == ([] if fault is None else [fault])
