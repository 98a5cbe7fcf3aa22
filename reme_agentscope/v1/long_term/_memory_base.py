"""Base of the three long-term memories: lifetime, state, writes off the reply path, answers to failures."""

import asyncio
import uuid
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from agentscope.embedding import EmbeddingModelBase
from agentscope.memory import LongTermMemoryBase
from agentscope.message import Msg, TextBlock
from agentscope.model import ChatModelBase
from agentscope.tool import ToolResponse

from reme_agentscope._shared.memory_blocks import UserBlocks
from reme_agentscope._shared.memory_kind import (
    LOG,
    CallScope,
    MemoryKind,
    Remembered,
    as_query,
    log_failure,
    warn,
)
from reme_agentscope._shared.opening import ClosedAtEnd, OpenedMemory, check_kept, failing_note, user_of
from reme_agentscope._shared.recorded_text import SaidInContext, as_limit, choose, fitting, query_text
from reme_agentscope.v1.long_term._asking_agent import AskingAgent, asking, watch_replies
from reme_agentscope.v1.long_term._block_prompt import watch_prompts
from reme_agentscope.v1.long_term._new_messages import SeenMessages, read_handed_over, text_of
from reme_agentscope.v1.messages import from_agentscope
from reme_core import Message
from reme_core.adapting import Appends
from reme_core.errors import ConfigurationError, InvalidInputError, ModelError, PartialFailureError, ReMeError, RunError
from reme_core.schema.checks import check_id

if TYPE_CHECKING:
    from reme_core import ReMe

_KEPT = (
    "The text is stored as it is, and will be found. Memories could not be made of it yet; that is tried again by "
    "itself: do not record it again."
)
# Of the talk of a context, which is left out of what is found, so much may be found instead of memories.
_MOST_SPARE = 500


class LongTermMemory(ClosedAtEnd, LongTermMemoryBase):
    """A long-term memory of one user. Nothing is opened before the first call, and no call ends a reply."""

    kind: ClassVar[MemoryKind]

    def __init__(
        self,
        agent_name: str | None = None,
        user_name: str | None = None,
        run_name: str | None = None,
        model: ChatModelBase | None = None,
        embedding_model: EmbeddingModelBase | None = None,
        reme_config_path: str | None = None,
        *,
        reme: "ReMe | None" = None,
        retrieve_timeout: float = 5.0,
        await_write: bool = False,
        scope: Literal["user", "agent", "run"] = "user",
        min_score: float | None = None,
        token_budget: int | None = None,
        memory_blocks: bool | Sequence[str] = False,
        **kwargs: Any,  # noqa: ANN401  # AgentScope's signature; what comes here is warned of
    ) -> None:
        """Keep the settings.

        Args:
            agent_name: The agent; of task memory, also the domain of what is learnt.
            user_name: Whose memory; None: the user `default`, which the log says once.
            run_name: The session that talk is added to; None: a new one, which the state keeps.
            model: Makes memories of the talk. None: the talk is kept word for word, and searched.
            embedding_model: For search by meaning. None: by words.
            reme_config_path: Was the configuration of an older release, and is not used.
            reme: A memory of your own, which stays open. None: one in the folder `.reme`, of the space `default`.
            retrieve_timeout: Seconds that a search may take.
            await_write: `record` waits until memories are made.
            scope: `agent`: the memory of this user's `agent_name` alone; `run`: of this `run_name` alone.
            min_score: Leaves out what is found with a lower score, in [0, 1]; memories that answer have 0.5 and more.
            token_budget: What `retrieve` returns has at most so many tokens.
            memory_blocks: Show the agent the user's memory blocks, as they are at each call of its model: True for all,
                or the labels of some. Where it has the tools of this memory, it may edit them.
            **kwargs: Not used; each is warned of.

        Raises:
            TypeError: A model beside `reme`, which has its own.
            ConfigurationError: Something else than a `ReMe`, a scope without the name that it needs, or no labels.
            InvalidInputError: A user, agent or run name that can't be one.
        """
        super().__init__()
        if reme is not None and (model is not None or embedding_model is not None):
            msg = "give either reme=..., which has its own models, or model= and embedding_model="
            raise TypeError(msg)
        unused = [*(["reme_config_path"] if reme_config_path is not None else []), *kwargs]
        if unused:
            names = ", ".join(unused)
            warnings.warn(f"{type(self).__name__} does not use {names}: configure a ReMe, and pass reme=", stacklevel=2)
        self.agent_name = agent_name
        self.workspace_id = user_name
        self.run_name = run_name
        self.retrieve_timeout = retrieve_timeout
        self.await_write = await_write
        self._user_id = user_of(user_name, **_part_of(scope, agent_name, run_name))
        self._min_score = 0.0 if min_score is None else min_score
        self._token_budget = token_budget
        self._memory = OpenedMemory(reme, chat_model=model, embedding_model=embedding_model)
        self.blocks = UserBlocks(memory_blocks, self._memory, user_id=self._user_id)
        self._session_id = uuid.uuid4().hex if run_name is None else _checked_run(run_name)
        self._handed_over = SeenMessages()
        self._appends = Appends(type(self).__name__, log=LOG)
        self._job_ids: set[str] = set()  # of what follows from talk that was kept here
        watch_replies()
        if memory_blocks is not False:
            watch_prompts()

    async def record(self, msgs: list[Msg | None], **kwargs: Any) -> None:  # noqa: ANN401  # AgentScope's signature
        """Keep what is new of a talk. Failures are logged and warned of.

        The messages are on disk when this returns (where the disk takes longer than a moment, right after it), and any
        search finds them; memories are made of them in the background.

        Args:
            msgs: The whole talk or part of it; each message is kept once. One alone and None are taken, too.
            **kwargs: Of task memory, `score`: how well it went, in [0, 1].

        Raises:
            TypeError: Something else than messages.
        """
        given = read_handed_over(msgs, "The input messages must be a list of Msg objects.")
        try:
            self._put(given, kwargs)
            await self._appends.wait(self._session_id)
            if self.await_write:
                await self.flush()
        except Exception as exc:  # noqa: BLE001  # it would end the reply, after the answer was made
            self._warn(self.kind.words.record_failed, exc)
        self._warn_of_failures()

    async def retrieve(self, msg: Msg | list[Msg] | None, limit: int = 5, **kwargs: Any) -> str:  # noqa: ANN401  # AgentScope's signature
        """Return what helps with messages; `""` where nothing matches. Failures are logged and warned of.

        In the reply of an agent nothing that its context says or shows already.

        Args:
            msg: The messages; the question is the text of all of them.
            limit: At most this many results.
            **kwargs: Not used.

        Raises:
            TypeError: Something else than messages.
        """
        given = read_handed_over(msg, "The input message must be a Msg or a list of Msg objects.")
        try:
            query = as_query(query_text(map(text_of, given)))
            if not query:
                return ""
            search = partial(self._found, query=query, limit=as_limit(limit), agent=asking(self))
            return await self._in_time(search, begins_reply=True)
        except Exception as exc:  # noqa: BLE001  # an agent answers without its memories, whatever a model or store has
            self._warn(self.kind.words.retrieve_failed, exc)
            return ""
        finally:
            self._warn_of_failures()

    async def flush(self) -> None:
        """Wait until everything handed over is on disk, and memories are made of it. Failures are warned of."""
        await self._appends.flush()
        self._job_ids.clear()
        try:
            await self._memory.flush()
        except Exception as exc:  # noqa: BLE001  # what failed is kept as a job, and tried again
            self._warn(self.kind.words.record_failed, exc)
        self._warn_of_failures()

    async def close(self) -> None:
        """Finish all work; then close what was built here. A later call opens it again.

        Raises:
            StoreError: Something that was recorded is not on disk. The memory is closed all the same.
        """
        await self.flush()
        try:
            await self._memory.close()
        except Exception as exc:  # noqa: BLE001  # it is closed; some jobs wait for the next start
            self._warn(self.kind.words.record_failed, exc)
        check_kept(self._appends)

    def state_dict(self) -> dict[str, Any]:
        """Return the session and what was recorded of it, as JSON."""
        return {"session_id": self._session_id, **self._handed_over.state()}

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:  # noqa: FBT001, FBT002  # AgentScope's signature
        """Go on with a session. An empty state, which AgentScope's own classes have saved, changes nothing."""
        if not state_dict:
            return
        session_id = state_dict.get("session_id")
        if isinstance(session_id, str) and session_id:
            self._session_id = session_id
        self._handed_over.restore(state_dict)

    async def _remember(self, thinking: str, content: object, options: Mapping[str, object]) -> ToolResponse:
        """Answer `record_to_memory`: what it says is done when it returns."""
        try:
            reason = thinking if isinstance(thinking, str) else ""
            answer = await self.kind.remember(self._place(), reason, content, options)
        except (PartialFailureError, ModelError) as exc:  # the texts are on disk before a model is asked
            self._failed(self.kind.words.tool_record_failed, exc)
            answer = Remembered(text=_KEPT)
        except Exception as exc:  # noqa: BLE001  # the model is told, and the reply goes on
            answer = Remembered(text=self._failed(self.kind.words.tool_record_failed, exc))
        return _response(answer)

    async def _recall(self, keywords: object, limit: object) -> ToolResponse:
        """Answer `retrieve_from_memory`."""
        try:
            text = await self._in_time(partial(self.kind.recall, keywords=keywords, limit=as_limit(limit)))
            text += failing_note(self._appends)
        except Exception as exc:  # noqa: BLE001  # the model is told, and the reply goes on
            text = self._failed(self.kind.words.tool_retrieve_failed, exc)
        self._warn_of_failures()
        return _response(Remembered(text=text))

    async def _in_time(self, search: Callable[[CallScope], Awaitable[str]], *, begins_reply: bool = False) -> str:
        """Wait for own appends a moment, then search what is there; in time, or TimeoutError."""
        try:
            async with asyncio.timeout(self.retrieve_timeout):
                await self._appends.wait(self._session_id, begins_reply=begins_reply)
                found = await search(self._place())
                await self._warn_of_jobs()
                return found
        except TimeoutError as exc:
            msg = f"nothing was found within {self.retrieve_timeout} seconds"
            raise TimeoutError(msg) from exc

    def _put(self, given: list[Msg], options: Mapping[str, object]) -> None:
        """Have what is new appended, behind what was put there before."""
        taken = self._handed_over.take(given, waits_for_results=self.kind.waits_for_results)
        messages = self._converted(taken)
        session_id = self._session_id  # a host may load another session before this one's turn has come

        async def append() -> None:
            try:
                await self._keep(replace(self._place(), session_id=session_id), messages, options)
            except InvalidInputError:  # the next time it would be no better
                self._handed_over.settle(taken)
                raise
            self._handed_over.settle(taken)

        if messages:
            self._appends.put(session_id, append)
        else:
            self._handed_over.settle(taken)

    def _converted(self, taken: list[Msg]) -> list[Message]:
        """Return messages in the core's form. One that has none doesn't keep the others from being kept."""
        messages: list[Message] = []
        for msg in taken:
            try:
                messages += [one for one in from_agentscope([msg]) if one.full_text.strip()]
            except (ReMeError, ValueError, TypeError, KeyError) as exc:
                self._warn(self.kind.words.record_failed, exc)
        return list({message.message_id: message for message in messages}.values())

    async def _keep(self, place: CallScope, messages: list[Message], options: Mapping[str, object]) -> None:
        try:
            self._job_ids.update(await self.kind.keep(place, messages, options))
        except InvalidInputError:
            if len(messages) == 1:
                raise
            await self._keep_usable(place, messages, options)

    async def _keep_usable(self, place: CallScope, messages: list[Message], options: Mapping[str, object]) -> None:
        """Keep each message by itself: one that can't be kept refuses all of a call (InvalidInputError at the end)."""
        refused: InvalidInputError | None = None
        for message in messages:
            try:
                self._job_ids.update(await self.kind.keep(place, [message], options))
            except InvalidInputError as exc:
                refused = exc
        if refused is not None:
            raise refused

    def _place(self) -> CallScope:
        return CallScope(
            memory=self._memory.get(),
            user_id=self._user_id,
            session_id=self._session_id,
            agent_name=self.agent_name,
        )

    async def _found(self, place: CallScope, query: str, limit: int, agent: AskingAgent | None) -> str:
        """Return what answers a question, and is new to the agent that asks."""
        said, shown = (
            (SaidInContext(), frozenset[str]()) if agent is None else (await agent.said(), await agent.shown())
        )
        spare = min(len(said.message_ids) + len(shown), _MOST_SPARE)
        found = await self.kind.search(place, query, limit + spare)
        hits = [hit for hit in found if hit.score >= self._min_score]
        chosen = choose(hits, shown=shown, said=said, limit=limit, text_of=self.kind.line)
        counter = place.memory.token_counter
        text = self.kind.text(fitting(chosen, text=self.kind.text, counter=counter, budget=self._token_budget))
        if agent is not None and text:
            agent.is_shown_more = True
        return text

    def _warn_of_failures(self) -> None:
        """Tell what has failed in the background since the last call; the log has it already."""
        for error in self._appends.take_errors():
            warn(f"{self.kind.words.record_failed}: {error}")

    async def _warn_of_jobs(self) -> None:
        """Tell which jobs have failed by now; nobody waits for one."""
        if not self._job_ids:
            return
        place = self._place()
        open_jobs = {job.job_id: job for job in await place.memory.list_jobs(user_id=place.user_id)}
        failed = {job_id for job_id in self._job_ids & open_jobs.keys() if open_jobs[job_id].error}
        self._job_ids = (self._job_ids & open_jobs.keys()) - failed
        for job_id in sorted(failed):
            msg = f"the talk is kept, but no memories were made of it yet: {open_jobs[job_id].error}"
            self._warn(self.kind.words.record_failed, RunError(msg))

    def _failed(self, text: str, error: Exception) -> str:
        log_failure(text, error)
        return f"{text}: {error}"

    def _warn(self, text: str, error: Exception) -> None:
        warn(self._failed(text, error))


def _part_of(scope: str, agent_name: str | None, run_name: str | None) -> dict[str, str]:
    """Return which part of a user's memory is meant, for `user_of`."""
    parts = {"user": {}, "agent": {"agent": agent_name}, "run": {"session": run_name}}
    found = parts.get(scope)
    if found is None or None in found.values():
        msg = f"scope: wanted 'user', 'agent' with an agent_name, or 'run' with a run_name, found {scope!r}"
        raise ConfigurationError(msg)
    return {name: value for name, value in found.items() if value is not None}


def _checked_run(run_name: str) -> str:
    try:
        return check_id(run_name)
    except ValueError as exc:
        msg = f"run_name: {exc}"
        raise InvalidInputError(msg) from exc


def _response(answer: Remembered) -> ToolResponse:
    metadata = None if answer.result is None else {"result": answer.result}
    return ToolResponse(content=[TextBlock(type="text", text=answer.text)], metadata=metadata)
