"""Pages of the site for files of the repository that pages link to: examples, the changes, how to contribute.

The pages are written to be read in the repository, where `../examples/chat.py` leads to a file. In the site each such
file is a page below `repository/`, to which these links lead: a strict build checks them as any other. What an example
prints stands under that word there, where the repository has a remark that readers of Markdown don't see.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_BELOW = "repository"
_PRINTED = re.compile(r"^<!-- prints -->\n+```text$", re.MULTILINE)
# Of a link to a file: what stands before the target, the target, and an anchor.
_LINK = re.compile(r"(\]\()([^)#:\s]+)(#[^)\s]*)?(?=\))")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each file outside of the documents that a page, or one of these files, links to."""
    root, documents = Path(config.config_file_path).parent, Path(config.docs_dir).name
    waiting = {"CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}
    for page in files.documentation_pages():
        waiting |= _outside(page.content_string, f"{documents}/{page.src_uri}", documents)
    done: set[str] = set()
    while waiting - done:
        path = min(waiting - done)
        done.add(path)
        if not (root / path).is_file():
            continue  # a link to it is a warning of the build
        text = _page_text(path, (root / path).read_text(encoding="utf-8"))
        waiting |= _outside(text, path, documents)
        files.append(File.generated(config, _page_uri(path), content=text))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links that leave the documents to the pages of these files."""
    documents = Path(config.docs_dir).name
    path = _repository_path(page.file.src_uri, documents)

    def moved(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link[2]))
        inside = target.startswith(f"{documents}/")
        uri = target.removeprefix(f"{documents}/") if inside else _page_uri(target)
        if files.get_file_from_path(uri) is None:
            return link[0]
        return f"{link[1]}{posixpath.relpath(uri, posixpath.dirname(page.file.src_uri) or '.')}{link[3] or ''}"

    return _PRINTED.sub('```text title="prints"', _LINK.sub(moved, markdown))


def _outside(text: str, path: str, documents: str) -> set[str]:
    """Return the files outside of the documents that a text at `path` links to."""
    targets = (posixpath.normpath(posixpath.join(posixpath.dirname(path), link[2])) for link in _LINK.finditer(text))
    return {target for target in targets if not target.startswith((f"{documents}/", "../"))}


def _page_text(path: str, text: str) -> str:
    if path.endswith(".md"):
        return text
    fence = "`" * (max((len(found) for found in re.findall("`{3,}", text)), default=2) + 1)
    return f"# {path}\n\n{fence}{PurePosixPath(path).suffix[1:] or 'text'}\n{text.rstrip()}\n{fence}\n"


def _page_uri(path: str) -> str:
    shown = re.sub(r"(^|/)\.", r"\1", path)  # a folder whose name begins with a dot is left out of sites
    return f"{_BELOW}/{shown if shown.endswith('.md') else f'{shown}.md'}"


def _repository_path(uri: str, documents: str) -> str:
    return uri.removeprefix(f"{_BELOW}/") if uri.startswith(f"{_BELOW}/") else f"{documents}/{uri}"
