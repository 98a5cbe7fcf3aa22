"""What the examples of this folder share: a model to talk with.

With REME_AGENT_MODEL set (and OPENAI_API_KEY, or REME_AGENT_BASE_URL for a server of your own) it is that model, behind
an OpenAI-compatible endpoint; otherwise a stand-in, which repeats what it is shown of memory.

Needs: pip install 'reme-memory[agentscope2]'
"""

import os

from agentscope.credential import OpenAICredential
from agentscope.message import HintBlock, Msg, TextBlock
from agentscope.model import ChatModelBase, ChatResponse, OpenAIChatModel


class _Formatter:
    supported_input_media_types = ("*",)


class StandIn(ChatModelBase):
    """Answers with the last note of memory, without a network."""

    class Parameters(ChatModelBase.Parameters):
        """None."""

    def __init__(self) -> None:
        super().__init__(credential=None, model="stand-in", parameters=self.Parameters(), stream=False)
        self.formatter = _Formatter()

    async def _call_api(self, model_name: str, messages: list[Msg], *args: object, **settings: object) -> ChatResponse:
        shown = [msg for msg in messages if msg.name == "memory"]
        notes = [str(block.hint) for msg in shown for block in msg.content if isinstance(block, HintBlock)]
        return ChatResponse(content=[TextBlock(text=notes[-1] if notes else "I see.")], is_last=True)

    async def count_tokens(self, messages: list[Msg], *args: object, **settings: object) -> int:
        return sum(len(msg.get_text_content() or "") for msg in messages) // 4


def chat_model() -> ChatModelBase:
    """Return the model that the environment names, or the stand-in."""
    name = os.environ.get("REME_AGENT_MODEL")
    if not name:
        return StandIn()
    key, address = os.environ.get("OPENAI_API_KEY", "none"), os.environ.get("REME_AGENT_BASE_URL")
    return OpenAIChatModel(credential=OpenAICredential(api_key=key, base_url=address), model=name, stream=False)
