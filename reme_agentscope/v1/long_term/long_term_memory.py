"""Long-term memory for `ReActAgent`: what was said, what was learnt at tasks, what is known of tools.

Drop-in for AgentScope's classes of the same names, with any chat and embedding model or none. AgentScope reads the
schemas of the two tools from the signatures and docstrings of each class, so annotations are no strings here.
"""

from typing import Any, ClassVar

from agentscope.tool import ToolResponse

from reme_agentscope._shared.memory_kind import MemoryKind
from reme_agentscope._shared.personal_memory import PersonalKind
from reme_agentscope._shared.task_memory import TaskKind
from reme_agentscope._shared.tool_memory import ToolKind
from reme_agentscope.v1.long_term._memory_base import LongTermMemory

__all__ = ["ReMePersonalLongTermMemory", "ReMeTaskLongTermMemory", "ReMeToolLongTermMemory"]


class ReMePersonalLongTermMemory(LongTermMemory):
    """What is known of a user: what was said, and with a chat model statements made of it.

    `retrieve` finds memories first, then messages, and returns `""` where nothing matches: where no word, name or date
    of the question speaks for anything, and with an embedding model nothing is near it either.
    """

    kind: ClassVar[MemoryKind] = PersonalKind()

    async def record_to_memory(self, thinking: str, content: list[str], **kwargs: Any) -> ToolResponse:  # noqa: ANN401  # models invent arguments
        """Record facts about the user that later conversations will need.

        When to use: the user states a preference, habit, plan, date, name or other personal fact, corrects an earlier
        one, or asks to remember something. Record full sentences that stand for themselves: who, what, when, where.

        Args:
            thinking (`str`):
                Why this is worth remembering. It is not recorded as a fact.
            content (`list[str]`):
                The facts, one in each string, such as "Alice is allergic to shellfish".
            **kwargs (`Any`):
                Not used.
        """
        return await self._remember(thinking, content, kwargs)

    async def retrieve_from_memory(self, keywords: list[str], limit: int = 5, **kwargs: Any) -> ToolResponse:  # noqa: ANN401  # models invent arguments
        """Look up what is known about the user from earlier conversations.

        When to use: before answering about the user's preferences, history, plans or people, and whenever the user
        refers to something said before. Do not guess what can be looked up.

        Args:
            keywords (`list[str]`):
                What to look for, one topic in each string, such as "allergies" or "trip to Lisbon".
            limit (`int`, optional):
                At most this many results for each keyword.
            **kwargs (`Any`):
                Not used.
        """
        return await self._recall(keywords, limit)


class ReMeTaskLongTermMemory(LongTermMemory):
    """What was learnt from attempts at tasks: each reply that is recorded is one attempt.

    With a chat model, attempts teach what worked and what failed. Without one they wait for a model, and are found by
    what was said in them; `record_to_memory` keeps lessons as they are.
    """

    kind: ClassVar[MemoryKind] = TaskKind()

    async def record_to_memory(self, thinking: str, content: list[str], **kwargs: Any) -> ToolResponse:  # noqa: ANN401  # models invent arguments
        """Record what was learnt from working on a task, for similar tasks later.

        When to use: a problem was solved or turned out to be a dead end, or a useful technique was found. Record
        lessons that can be acted on: in which situation, what to do, and what came of it.

        Args:
            thinking (`str`):
                Why this experience is worth keeping. It is not recorded itself.
            content (`list[str]`):
                The lessons, one in each string, such as "Add an index on columns in WHERE to speed up slow queries".
            **kwargs (`Any`):
                `score`: how well it went, in [0, 1].
        """
        return await self._remember(thinking, content, kwargs)

    async def retrieve_from_memory(self, keywords: list[str], limit: int = 5, **kwargs: Any) -> ToolResponse:  # noqa: ANN401  # models invent arguments
        """Look up what earlier work on similar tasks has taught.

        When to use: before starting on a technical problem or a task with several steps, and when something fails that
        may have failed before.

        Args:
            keywords (`list[str]`):
                The task or its parts in technical terms, one in each string, such as "slow database queries".
            limit (`int`, optional):
                At most this many results for each keyword.
            **kwargs (`Any`):
                Not used.
        """
        return await self._recall(keywords, limit)


class ReMeToolLongTermMemory(LongTermMemory):
    """What is known of tools from their calls: statistics, errors, examples, and with a chat model guidelines.

    `record` reads calls with their results from the talk. `retrieve` answers for tools that the message names.
    """

    kind: ClassVar[MemoryKind] = ToolKind()

    async def record_to_memory(self, thinking: str, content: list[str], **kwargs: Any) -> ToolResponse:  # noqa: ANN401  # models invent arguments
        """Record calls of tools and what came of them, from which guidelines for these tools are made.

        When to use: a tool was called and its result shows how it is used well, or how it fails.

        Args:
            thinking (`str`):
                What the calls show. It is not recorded itself.
            content (`list[str]`):
                One JSON object in each string, with the fields create_time ("YYYY-MM-DD HH:MM:SS"), tool_name,
                input (an object), output (a string), token_cost (integer), success (boolean), time_cost (seconds).
            **kwargs (`Any`):
                Not used.
        """
        return await self._remember(thinking, content, kwargs)

    async def retrieve_from_memory(self, keywords: list[str], limit: int = 5, **kwargs: Any) -> ToolResponse:  # noqa: ANN401  # models invent arguments
        """Look up how tools are used well: guidelines, success rates, frequent errors and examples of calls.

        When to use: before calling a tool whose arguments or pitfalls are not certain, and after a call has failed.

        Args:
            keywords (`list[str]`):
                The exact names of the tools, one in each string, such as "web_search".
            limit (`int`, optional):
                At most this many tools for a text that is no exact name, and examples of each tool.
            **kwargs (`Any`):
                Not used.
        """
        return await self._recall(keywords, limit)
