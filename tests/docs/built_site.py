"""A check of the built site: every link and picture leads to something, and no page asks anything of another host.

    python tests/docs/built_site.py site

`mkdocs build --strict` checks the links of pages; this reads what came of them, the API and the theme included.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_ASKED = {("img", "src"), ("script", "src"), ("iframe", "src"), ("source", "src"), ("video", "src")}
_ASKING_LINKS = {"stylesheet", "icon", "preconnect", "preload", "prefetch", "dns-prefetch", "modulepreload"}
_CSS_ADDRESS = re.compile(r"""(?:url\(\s*|@import\s+)["']?(https?:)?//""")


class _Page(HTMLParser):
    """What a page links to, what it asks for, and the ids in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.asked: list[str] = []
        self.styles = "<style" in text and bool(_CSS_ADDRESS.search(text))
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        for name, value in given.items():
            is_asked = tag == "link" and bool(_ASKING_LINKS & set(given.get("rel", "").split()))
            if (tag, name) in _ASKED or (is_asked and name == "href"):
                self.asked.append(value)
            elif tag in {"a", "link"} and name == "href":
                self.links.append(value)


def faults(site: Path) -> list[str]:
    """Return what is wrong in a built site, a line each."""
    pages = {path: _Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    found = [f"{path.relative_to(site)}: a style of another host" for path, page in pages.items() if page.styles]
    sheets = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.css")}
    found += [
        f"{path.relative_to(site)}: asks another host" for path, text in sheets.items() if _CSS_ADDRESS.search(text)
    ]
    for path, page in pages.items():
        found += [f"{path.relative_to(site)}: asks {url}" for url in page.asked if urlsplit(url).netloc]
        for url in (*page.links, *page.asked):
            if (parts := urlsplit(url)).scheme or parts.netloc:
                continue
            folder = site if parts.path.startswith("/") else path.parent
            target = (folder / unquote(parts.path).lstrip("/")).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                found.append(f"{path.relative_to(site)}: {url} leads nowhere")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
                found.append(f"{path.relative_to(site)}: {url} has no such place")
    return found if pages else [f"{site}: no page"]


def main(site: str) -> int:
    """Print the faults of a site; 1 where there are some."""
    found = faults(Path(site).resolve())
    print("\n".join(found) or f"{site}: every link leads somewhere, and nothing is asked of another host")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
