"""The way down: what memories and messages leave open is looked up in the block index."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from reme_core import ReMe
from reme_core.testing import ScriptedChatModel

ANSWER = json.dumps({"facts": [], "summary": "They plan a honeymoon."})


async def test_a_block_is_found_by_words_that_its_index_alone_has_and_only_where_it_is_asked_for(
    tmp_path: Path,
) -> None:
    ann: dict[str, Any] = {"user_id": "ann", "memory_type": "personal"}  # which leaves out the summary memory
    async with ReMe("space", tmp_path, llm=ScriptedChatModel([ANSWER]), embedding=None) as memory:
        kept = await memory.summary([("user", "We fly to Bali after the wedding")], user_id="ann")
        [hit] = (await memory.retrieve("honeymoon", **ann)).results
        assert (hit.layer, hit.block_id, hit.message_ids) == ("summary", kept.block_ids[0], kept.message_ids)
        assert [hit.layer for hit in (await memory.retrieve("Bali honeymoon", **ann)).results] == ["message"]
        assert (await memory.retrieve("honeymoon", **{**ann, "user_id": "bob"})).results == ()
        assert (await memory.retrieve("honeymoon", **ann, layers=["memory", "message"])).results == ()
        assert (await memory.retrieve("honeymoon", user_id="ann", memory_type="tool")).results == ()
