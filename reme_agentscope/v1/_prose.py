"""A model that summarises without headings is understood too: small ones leave them out, asked twice or not."""

from __future__ import annotations

import re
from dataclasses import replace

from reme_core.ports import ChatModel, ChatRequest, ChatResult
from reme_core.schema import TextBlock

# The core's summary has these, in this order; what a plain text says belongs under the last one, whose lines last.
_EMPTY = ("Goal", "Constraints", "Progress", "Key Decisions", "Next Steps")
_LAST = "Critical Context"
# A heading, of the summary or of something else; JSON; tags, as of thoughts; a fence.
_OTHER_FORM = re.compile(r"^\s*(?:#|```|\*\*[^*]+\*\*:?\s*$)|\A\s*[\[{<]", re.MULTILINE)
_BULLET = re.compile(r"^\s*(?:[-*•]\s+|\d{1,3}[.)]\s+)?")


class ProseToo:
    """A chat model whose plain texts become summaries in the core's form. What they say is checked there as ever."""

    def __init__(self, model: ChatModel) -> None:
        """Keep the model."""
        self._model = model

    async def chat(self, request: ChatRequest) -> ChatResult:
        """Answer as the model does; raises as it does."""
        result = await self._model.chat(request)
        text = result.message.text
        if not text.strip() or _OTHER_FORM.search(text):
            return result
        others = [block for block in result.message.content if not isinstance(block, TextBlock)]
        message = result.message.model_copy(update={"content": (*others, TextBlock(text=_in_form(text)))})
        return replace(result, message=message)


def _in_form(text: str) -> str:
    empty = [f"## {name}\n- none" for name in _EMPTY]
    lines = [f"- {_BULLET.sub('', line, count=1).rstrip()}" for line in text.splitlines() if line.strip()]
    return "\n".join([*empty, f"## {_LAST}", *lines])
