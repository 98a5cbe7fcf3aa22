"""The agent that writes the journal: what a conversation leaves to be looked up goes into the page of its day."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import Field

from reme_core.agents.base import DEFAULT_OPTIONS, AgentOptions, BaseMemoryAgentOp
from reme_core.agents.loop import Limits
from reme_core.agents.targets import fenced_messages, said_between
from reme_core.errors import ConfigurationError
from reme_core.files.folder import UnreadableFileError, read_page
from reme_core.files.journal import JOURNAL_WRITER, entry_heading, journal_path
from reme_core.files.keeper import Folders
from reme_core.ports import AgentResult, AgentTask, BlockSummary, ChatModel, Clock, Store, Tool, ToolContext, WriteBatch
from reme_core.schema import Message, Scope, ToolCallBlock
from reme_core.steps.ask_json import MeteredChatModel
from reme_core.steps.distillation import Distilled, DistilTask
from reme_core.text import Language, fence
from reme_core.tools.files import EditFileOp, ReadFileOp, WriteFileOp
from reme_core.tools.files.writing import WriteFileItem

_SHOWN_CHARS = 12_000  # of a page, its end: some 3,000 tokens, which leave room in a small window
_SUMMARY_CHARS = 2_000  # of what the block index is to say


class AppendFileItem(WriteFileItem):
    """What is to be added."""

    mode: Literal["append"] = Field(default="append", description="append: at the end, on a line of its own.")


class AppendFileOp(WriteFileOp):
    """Adds to the end of a file; what there is stays."""

    description = "Add to the end of a text file of the folder, which is made if it is not there."
    item = AppendFileItem


class JournalAgentV1Op(BaseMemoryAgentOp):
    """Writes what messages leave to be looked up into the page of their day; it sees the folder `memory` alone."""

    name = JOURNAL_WRITER
    description = "Writes a journal of messages."
    prompt = "reme_core.files:journal"
    task_prompt = "reme_core.files:journal_task"
    own_limits = Limits(max_steps=6)
    final_tools = frozenset({"write_file", "edit_file"})

    def __init__(self, root: Path, options: AgentOptions = DEFAULT_OPTIONS, *, session_id: str = "") -> None:
        """Keep the folder of the user, and the session that the messages are of."""
        self.root = root
        self.session_id = session_id
        super().__init__(options)

    def build_tools(self) -> Sequence[Tool]:
        """Build reading, adding and editing, below the folder of the journal."""
        return [kind(root=self.root, below="memory") for kind in (ReadFileOp, AppendFileOp, EditFileOp)]

    async def prepare(self, task: AgentTask, context: ToolContext) -> Mapping[str, str]:
        """Read the page of the day of the last message."""
        at = max(message.created_at for message in task.messages)
        path = journal_path(at)
        return {
            "path": path,
            "page": fence("page", await asyncio.to_thread(_shown, self.root, path)),
            "heading": entry_heading(at, "", self.session_id),
            "conversation": fenced_messages(task.messages, context.zone),
            "said": said_between(task.messages, context),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalDistiller:
    """A `Distiller` whose memories are the journal's: an agent writes its page, and the files are synced after that.

    Attributes:
        folders: Whose journal is where.
        store: For the context of the tools.
        model: Writes.
        clock: Tells the time.
        language: Of the prompts; None follows the conversation.
    """

    folders: Folders
    store: Store
    model: ChatModel
    clock: Clock
    language: Language | None = None
    name: str = field(default=JOURNAL_WRITER, init=False)

    async def distil(self, scope: Scope, task: DistilTask) -> Distilled:
        """Have the agent write; see `Distiller.distil`. Again, it finds on the page what it wrote before.

        Raises:
            ConfigurationError: The user has no folder.
        """
        folder = self.folders.of(scope)
        if folder is None:
            msg = f"user {scope.user_id!r} has no folder: name one in files=, or let another summarizer do this job"
            raise ConfigurationError(msg)
        nothing = WriteBatch(run_id=task.run_id, actor=self.name, at=self.clock.now())
        if not task.messages:
            return Distilled(batch=nothing)
        context = ToolContext(
            scope=scope,
            store=self.store,
            model=MeteredChatModel(self.model, task.meter),
            clock=self.clock,
            run_id=task.run_id,
            author=self.name,
            messages=task.messages,
            guidance=task.guidance.shown(self.language or "en"),
            zone=task.zone,
        )
        agent = JournalAgentV1Op(folder.resolve(), AgentOptions(language=self.language), session_id=task.session_id)
        done = await agent.run(AgentTask(workspace_id=scope.memory_space, messages=task.messages), context)
        text = _written(done)[:_SUMMARY_CHARS]
        return Distilled(
            batch=nothing,
            summaries=tuple(
                BlockSummary(block_id=block.block_id, summary=text or block.summary, author=self.name)
                for block in task.blocks
            ),
        )


def _shown(root: Path, path: str) -> str:
    try:
        return read_page(root, path).data.decode()[-_SHOWN_CHARS:]
    except UnreadableFileError:
        return ""  # there is none yet; what else is wrong with it the tools tell


def _written(done: AgentResult) -> str:
    """Return what the agent wrote anew."""
    calls = (block for message in done.transcript for block in _calls(message) if block.name == "write_file")
    told = (call.arguments.get("content") for call in calls if isinstance(call.arguments, dict))
    return "\n".join(text for text in told if isinstance(text, str))


def _calls(message: Message) -> list[ToolCallBlock]:
    return [block for block in message.content if isinstance(block, ToolCallBlock)]
