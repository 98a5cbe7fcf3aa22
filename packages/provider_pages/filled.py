"""Pages of this folder with the project's addresses: `python packages/provider_pages/filled.py FOLDER`.

The addresses are `Documentation` and `Source` under [project.urls] of the project's pyproject.toml, and nowhere else.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

HERE = Path(__file__).resolve().parent
PAGES = ("listing.yaml", "checkpointers.md", "provider.mdx", "middleware.mdx", "store.mdx")


def filled(page: str, urls: Mapping[str, str]) -> str:
    """Return a page with the addresses in it (SystemExit: one of them isn't named)."""
    missing = [name for name in ("Documentation", "Source") if not urls.get(name)]
    if missing:
        raise SystemExit(f"pyproject.toml: [project.urls] lacks {' and '.join(missing)}")
    documentation, source = (urls[name].rstrip("/") for name in ("Documentation", "Source"))
    page = page.replace("https://DOCS_URL", documentation).replace("https://SOURCE_URL", source)
    return page.replace("SOURCE_NAME", urlsplit(source).path.strip("/"))


def main(folder: Path) -> None:
    """Write every page into a folder."""
    project = tomllib.loads((HERE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    made = {name: filled((HERE / name).read_text(encoding="utf-8"), project.get("urls", {})) for name in PAGES}
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in made.items():
        (folder / name).write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "provider_pages"))
