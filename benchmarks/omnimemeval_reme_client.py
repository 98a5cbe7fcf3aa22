"""reme as a memory backend of OmniMemEval (github.com/MemTensor/OmniMemEval): one client file for its harness.

Written for the client interface of its commit 45bf103060d9efb13d335d463dbec8c30f283d65 (`scripts/client_factory`; the
harness numbers no versions): a class made without arguments, with `add(messages, user_id, **kwargs)`, where a message
has `role`, `content` and maybe `name` and `chat_time`; `search(query, user_id, top_k)`, which returns text; and
`delete_user(user_id)`. Clients are made and called in several threads, and never closed.

To use it, in a checkout of the harness whose environment has reme (`pip install reme-memory`):

1. copy this file to `scripts/client_factory/reme_client.py`;
2. in `scripts/client_factory/registry.py`, add `"reme": ("reme_client", "ReMeClient")` to `_LIB_CLIENT_REGISTRY`;
3. in `scripts/locomo/locomo_search.py`, add `"reme": generic_text_search` to `_search_dispatch`, and in
   `scripts/utils/search_helpers.py` the same to `DEFAULT_SEARCH_DISPATCH`;
4. run it with `--lib reme` and an environment file that has `REME_DIR` (the folder of the memory; `.reme` by default)
   and, for memories beside messages, `REME_LLM_MODEL`, `REME_LLM_API_KEY`, `REME_EMBEDDING_MODEL` and so on.

Each call of `add` is a session. Its ids come from its contents, so that a session that is handed in again after a
failure is not kept twice.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Mapping, Sequence
from functools import cache

from reme_core import ReMe, SyncReMe

_OPENING = threading.Lock()


class ReMeClient:
    """A client of the harness; all of a process share one memory."""

    def add(self, messages: Sequence[Mapping[str, str]], user_id: str, **_kwargs: object) -> None:
        """Keep a session, and make its memories and vectors; what the harness tells other backends is not needed.

        Nothing is left for later: the harness searches in another process. A message without text is left out.
        """
        told = [_whole_text(message) for message in messages]
        messages = [message for message in told if message["content"].strip()]
        if not messages:
            return
        digest = hashlib.sha256(json.dumps([user_id, *map(dict, messages)], sort_keys=True).encode()).hexdigest()[:32]
        given = [_message(message, f"{digest}-{number}") for number, message in enumerate(messages)]
        _memory().summary(given, user_id=user_id, session_id=digest, end_session=True)
        _memory().flush()

    def search(self, query: str, user_id: str, top_k: int) -> str:
        """Return what is found as dated lines; "" where there is nothing."""
        query = query.encode("utf-8", "replace").decode()
        return _memory().retrieve(query, user_id=user_id, limit=top_k).text

    def delete_user(self, user_id: str) -> None:
        """Delete everything of a user."""
        _memory().delete_all_memories(user_id=user_id)


def _memory() -> SyncReMe:
    with _OPENING:  # threads that come first together open one
        return _opened()


@cache
def _opened() -> SyncReMe:
    memory = ReMe("omnimemeval", os.environ.get("REME_DIR") or ".reme").sync()
    memory.__enter__()  # never closed: each call leaves all of it on disk, and threads are gone when a process ends
    return memory


def _whole_text(message: Mapping[str, str]) -> dict[str, str]:
    """Return a message with a text that can be kept: none where there is none, and no halves of broken emojis.

    A speaker whom the harness repeats in the text stands once.
    """
    fields = {field: str(value).encode("utf-8", "replace").decode() for field, value in message.items() if value}
    name, content = fields.get("name", ""), fields.get("content", "")
    return fields | {"content": content.removeprefix(f"{name}: ") if name else content}


def _message(message: Mapping[str, str], message_id: str) -> dict[str, str]:
    """Return a message in reme's form."""
    fields = {
        "message_id": message_id,
        "role": message.get("role", "user"),
        "name": message.get("name", ""),
        "content": message["content"],
        "created_at": message.get("chat_time", ""),
    }
    return {field: value for field, value in fields.items() if value}
