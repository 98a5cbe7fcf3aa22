"""The two tools that OpenAI's connectors and deep research ask for: `search` and `fetch`.

Source: https://platform.openai.com/docs/mcp: one text item with the JSON of `results` (id, title, url), and of a
document (id, title, text, url, metadata).
"""

from __future__ import annotations

from reme_core.schema import Hit, found_line
from reme_core.serve.mcp.answers import Document, FetchAnswer, SearchAnswer, id_of
from reme_core.serve.mcp.arguments import IdArguments, SearchArguments
from reme_core.serve.mcp.caller import Caller
from reme_core.serve.mcp.reading import get_memory
from reme_core.serve.mcp.resources import memory_uri

_LIMIT = 10
_TITLE_CHARS = 80


async def search(caller: Caller, given: SearchArguments) -> SearchAnswer:
    """Find documents: memories, and messages."""
    found = await caller.memory.retrieve(given.query, user_id=caller.user_id, limit=_LIMIT)
    hits = [hit for hit in found.results if hit.layer != "summary"]
    return SearchAnswer(results=[_document(hit) for hit in hits])


def _document(hit: Hit) -> Document:
    own_id = id_of(hit)
    return Document(id=own_id, title=_title(hit), url=memory_uri(own_id))


def _title(hit: Hit) -> str:
    return " ".join(found_line(hit, max_chars=_TITLE_CHARS).removeprefix("- ").split())


async def fetch(caller: Caller, given: IdArguments) -> FetchAnswer:
    """Return a document whole."""
    shown = await get_memory(caller, given)
    [title] = [line for line in shown.text.splitlines() if line.startswith("- ")][:1] or [shown.id]
    return FetchAnswer(
        id=shown.id,
        title=title.removeprefix("- ")[:_TITLE_CHARS],
        text=shown.text,
        url=memory_uri(shown.id),
        metadata={"kind": shown.kind},
    )
