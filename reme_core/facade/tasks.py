"""Procedural and tool memory on the facade: what attempts and recorded calls teach, and whether it helped."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from reme_core.facade.parts import MemoryParts
from reme_core.schema import (
    Feedback,
    Forgotten,
    Memory,
    RecordedToolCalls,
    TaskMemories,
    TaskSummary,
    ToolMemories,
    ToolSummary,
    parse_messages,
    parse_trajectories,
)
from reme_core.steps import user_input as inputs
from reme_core.telemetry import traced

if TYPE_CHECKING:
    from reme_core.ports import ToolCallPage, ToolPage
    from reme_core.tasks.task_values import RetrievalFlow, TaskFlow


FREQ_THRESHOLD = 5
"""A memory that was used less often has not had its chance yet."""

UTILITY_THRESHOLD = 0.5
"""Of a memory's uses, less than this share helped: it is more in the way than of use."""


class TaskMethods:
    """The methods of `ReMe` on tasks."""

    @traced("upsert_memory")
    async def summary_task(
        self: MemoryParts,
        trajectories: Sequence[object],
        *,
        user_id: str | None = None,
        shared: bool = False,
        task_name: str,
        background: bool = False,
    ) -> TaskSummary:
        """Keep attempts at tasks, and with a chat model learn from them: from successes, failures, and both compared.

        The attempts are on disk before a model is asked, in one write. What then fails is a job that `flush`, `close`
        or the next start finishes; what an attempt at a task teaches is written at once or not at all. Without a model
        the job waits until there is one.

        Args:
            trajectories: `Trajectory` objects, or dictionaries with `messages` and `score` (in [0, 1]), and maybe
                `task_id`, `metadata` and `trajectory_id`. Attempts at one task in one call are compared.
            user_id: Whose they are.
            shared: The shared scope of the space, in place of a user.
            task_name: The task domain: the target of what is learnt.
            background: Return once the attempts are on disk.

        Raises:
            InvalidInputError: A trajectory that can't be read, naming it; nothing was kept.
            ConflictError: A `trajectory_id` that belongs to other messages, or whose attempt still waits to be learnt
                from with another score or task; nothing was kept.
            PartialFailureError: The attempts are on disk, what follows failed and is tried again later; `done` is the
                result so far.
        """
        from reme_core.tasks.record_attempts import TaskRequest

        await self._work.recover()
        scope, now = self._scope(user_id, shared=shared), self._clock.now()
        parsed = await asyncio.to_thread(parse_trajectories, trajectories, now=lambda: now)
        for place, trajectory in enumerate(parsed):
            inputs.check_not_future(trajectory.messages, now, f"trajectories[{place}].messages")
        request = TaskRequest(
            task_name=inputs.read_name(task_name, "task_name"),
            trajectories=parsed,
            background=inputs.read_flag(background, "background"),
        )
        return await self._learning.recorder().summarize(scope, request)

    @traced("search_memory")
    async def retrieve_task_memory(
        self: MemoryParts,
        query: str | None = None,
        *,
        user_id: str | None = None,
        shared: bool = False,
        messages: Sequence[object] = (),
        task_name: str | None = None,
        limit: int = 5,
        token_budget: int | None = None,
        min_score: float | None = None,
        include_shared: bool = False,
        rerank: bool = False,
        rewrite: bool = False,
    ) -> TaskMemories:
        """Return what was learnt for a task: procedural memories of this user, of no other type and no other scope.

        Args:
            query: The task in words; left out, it is built from the messages.
            user_id: Whose memories.
            shared: The shared scope of the space, in place of a user.
            messages: The conversation so far: its first user message and the last ones make the query.
            task_name: Only of this task domain. Where nothing of it shares a word with the query, its best memories: by
                confidence, importance and how often they helped.
            limit: At most this many.
            token_budget: `text` has so many tokens at most.
            min_score: Leaves out what scores lower.
            include_shared: Look into the shared scope of the space as well.
            rerank: Have the model put them in order.
            rewrite: Have the model write one text for this task of them; the results stay as they are.

        Raises:
            InvalidInputError: Neither a query nor messages that say anything, or a number that can't be used.
            ConfigurationError: `rerank` or `rewrite` without a chat model.
            ModelError: The model failed.
        """
        from reme_core.tasks.find_experiences import make_retrieval_flow
        from reme_core.tasks.task_values import TaskQuestion

        learner = self._learning
        options = (inputs.read_flag(rerank, "rerank"), inputs.read_flag(rewrite, "rewrite"))
        flow = learner.retrieval_flow
        if flow is None or any(options):
            flow = make_retrieval_flow(rerank=options[0], rewrite=options[1])
        question = TaskQuestion(
            query="" if query is None else inputs.read_bounded_query(query),
            messages=await asyncio.to_thread(parse_messages, messages),
            limit=inputs.read_count(limit, "limit"),
            token_budget=None if token_budget is None else inputs.read_count(token_budget, "token_budget"),
            include_shared=inputs.read_flag(include_shared, "include_shared"),
            min_score=None if min_score is None else inputs.read_share(min_score, "min_score"),
        )
        target = None if task_name is None else inputs.read_name(task_name, "task_name")
        return await learner.answer(self._scope(user_id, shared=shared), target, question, flow)

    def set_task_flow(self: MemoryParts, flow: TaskFlow) -> None:
        """Exchange the stages by which `summary_task` learns; see `reme_core.tasks`.

        Raises:
            ConfigurationError: It is no flow.
        """
        self._learning.set_task_flow(flow)

    def set_task_retrieval(self: MemoryParts, flow: RetrievalFlow) -> None:
        """Exchange the stages of `retrieve_task_memory`; calls with `rerank` or `rewrite` use the own ones.

        Raises:
            ConfigurationError: It is no flow.
        """
        self._learning.set_retrieval_flow(flow)

    async def record_use(
        self: MemoryParts,
        memory_ids: str | Sequence[str],
        *,
        user_id: str | None = None,
        shared: bool = False,
        uses: int = 1,
        helpful: float = 0,
    ) -> list[Memory]:
        """Count that memories were used, and how often that helped; exact, whoever else counts at the same time.

        Args:
            memory_ids: Which, one or several; one that stands twice counts twice.
            user_id: Whose.
            shared: The shared scope of the space, in place of a user.
            uses: Added to `freq`. 0 where the use was counted before, and only now is known to have helped.
            helpful: Added to `utility`: 1 (or True) for a use that helped.

        Raises:
            MemoryNotFoundError: Naming those that this user doesn't have; none was counted.
            InvalidInputError: A count below zero, or none at all.
        """
        from reme_core.tasks.memory_utility import record_use

        ids = inputs.read_ids([memory_ids] if isinstance(memory_ids, str) else memory_ids, "memory_ids")
        return await record_use(self._ports.store, self._scope(user_id, shared=shared), ids, uses=uses, helpful=helpful)

    @traced("delete_memory")
    async def forget_memories(
        self: MemoryParts,
        *,
        user_id: str | None = None,
        shared: bool = False,
        task_name: str | None = None,
        memory_type: str | Sequence[str] = "procedural",
        freq_threshold: int = FREQ_THRESHOLD,
        utility_threshold: float = UTILITY_THRESHOLD,
        dry_run: bool = False,
    ) -> Forgotten:
        """Remove memories that were used often and seldom helped: `freq >= f` and `utility / freq < u`.

        One write, which `undo` takes back; a memory that becomes helpful meanwhile stays.

        Args:
            user_id: Whose.
            shared: The shared scope of the space, in place of a user.
            task_name: Only about this target.
            memory_type: Of this type or these types.
            freq_threshold: f, at least 1: a memory that was never used is never forgotten.
            utility_threshold: u, above 0, at most 1.
            dry_run: Say what would go, and remove nothing.

        Raises:
            InvalidInputError: A threshold that can't be used, or the type `block`.
        """
        from reme_core.tasks.memory_utility import forget

        return await forget(
            self._ports.store,
            self._scope(user_id, shared=shared),
            types=inputs.read_searched_types(memory_type),
            targets=None if task_name is None else (inputs.read_name(task_name, "task_name"),),
            min_freq=freq_threshold,
            max_utility=utility_threshold,
            dry_run=inputs.read_flag(dry_run, "dry_run"),
            at=self._clock.now(),
        )

    async def observe(
        self: MemoryParts, feedback: object, *, user_id: str | None = None, shared: bool = False
    ) -> list[Memory]:
        """Take in what was seen of memories at work: it moves their importance or confidence; see `Feedback`.

        Args:
            feedback: A `Feedback` or a dictionary of its fields, or a list of them.
            user_id: Whose memories.
            shared: The shared scope of the space, in place of a user.

        Raises:
            MemoryNotFoundError: Naming those that this user doesn't have; none was changed.
            InvalidInputError: Feedback that can't be read, naming it.
            ConflictError: Others changed these memories for ten seconds on end.
        """
        from reme_core.tasks.memory_utility import observe, parse_feedback

        items = [feedback] if isinstance(feedback, (Feedback, Mapping)) else feedback
        return await observe(
            self._ports.store, self._scope(user_id, shared=shared), parse_feedback(items), at=self._clock.now()
        )


class ToolMethods:
    """The methods of `ReMe` on calls of tools."""

    async def add_tool_call_results(
        self: MemoryParts,
        tool_call_results: Sequence[object] = (),
        *,
        user_id: str | None = None,
        shared: bool = False,
        messages: Sequence[object] = (),
    ) -> RecordedToolCalls:
        """Record calls of tools; no model is asked.

        Args:
            tool_call_results: `ToolCallResult` objects, dictionaries of its fields, or these as texts of JSON. A
                `call_id` that is recorded already is not recorded again. Where `success` is left out (or None), the
                output tells it: one that looks like an error has failed.
            user_id: Whose.
            shared: The shared scope of the space, in place of a user.
            messages: A conversation: each tool call in it that has a result is recorded. Handing it in again records
                nothing more, where its messages bring their ids, whatever was done to their texts meanwhile.

        Raises:
            InvalidInputError: A call that can't be read, or was made more than a day from now, naming it; nothing was
                recorded.
            ConflictError: A `call_id` among the results that belongs to another call; nothing was recorded.
        """
        from reme_core.toolstats.record_calls import read_handed_in, record

        scope, store, now = self._scope(user_id, shared=shared), self._ports.store, self._clock.now()
        given, read = await asyncio.to_thread(read_handed_in, tool_call_results, messages, now)
        known = await record(store, scope, given, read.calls)
        calls = (*given, *read.calls)
        return RecordedToolCalls(
            call_ids=tuple(call.call_id for call in calls),
            known_call_ids=tuple(call.call_id for call in calls if call.call_id in known),
            tool_names=tuple(dict.fromkeys(call.tool_name for call in calls)),
            open_call_ids=read.open_call_ids,
            skipped_call_ids=read.skipped_call_ids,
        )

    async def summarize_tool_memory(
        self: MemoryParts,
        tool_names: str | Sequence[str],
        *,
        user_id: str | None = None,
        shared: bool = False,
        background: bool = False,
    ) -> ToolSummary:
        """Have the model write guidelines for tools from their recorded calls; without one, say what they add up to.

        A tool of which nothing was recorded since its guideline was written is left as it is.

        Args:
            tool_names: A name or several, exact.
            user_id: Whose calls.
            shared: The shared scope of the space, in place of a user.
            background: Return at once; the guidelines follow.

        Raises:
            PartialFailureError: Some failed and are tried again later; `done` is the result so far.
        """
        await self._work.recover()
        names = inputs.read_names(tool_names, "tool_names")
        return await self._learning.guidelines(
            self._scope(user_id, shared=shared), names, background=inputs.read_flag(background, "background")
        )

    @traced("search_memory")
    async def retrieve_tool_memory(
        self: MemoryParts, tool_names: str | Sequence[str], *, user_id: str | None = None, shared: bool = False
    ) -> ToolMemories:
        """Return what is known of tools, by exact name: guideline, statistics, and errors and examples without one.

        Args:
            tool_names: A name or several; case counts, blanks at the ends don't.
            user_id: Whose.
            shared: The shared scope of the space, in place of a user.
        """
        from reme_core.toolstats.tool_lookup import retrieve_tool_memories

        names = inputs.read_names(tool_names, "tool_names")
        return await retrieve_tool_memories(self._ports.store, self._scope(user_id, shared=shared), names)

    async def list_tool_calls(
        self: MemoryParts,
        *,
        user_id: str | None = None,
        shared: bool = False,
        tool_name: str | None = None,
        success: bool | None = None,
        error: str | None = None,
        limit: int = 100,
        newest_first: bool = True,
        cursor: str | None = None,
    ) -> ToolCallPage:
        """Return a page of recorded calls.

        Args:
            user_id: Whose.
            shared: The shared scope of the space, in place of a user.
            tool_name: Of this tool.
            success: Those that succeeded, or those that failed.
            error: Failures of this kind, as the statistics name it.
            limit: At most this many.
            newest_first: By the time of the call.
            cursor: From the page before.

        Raises:
            InvalidInputError: Something can't be read, or a cursor that is not of this list.
        """
        from reme_core.ports import ListToolCalls

        query = ListToolCalls(
            tool_name=None if tool_name is None else inputs.read_name(tool_name, "tool_name"),
            success=None if success is None else inputs.read_flag(success, "success"),
            error=None if error is None else inputs.read_text(error, "error"),
            limit=inputs.read_count(limit, "limit"),
            cursor=cursor,
            newest_first=inputs.read_flag(newest_first, "newest_first"),
        )
        return await self._ports.store.list_tool_calls(self._scope(user_id, shared=shared), query)

    async def list_tools(
        self: MemoryParts,
        *,
        user_id: str | None = None,
        shared: bool = False,
        limit: int = 100,
        cursor: str | None = None,
    ) -> ToolPage:
        """Return a page of the tools that were called, by name, with the number of their recorded calls."""
        from reme_core.ports import ListTools

        query = ListTools(limit=inputs.read_count(limit, "limit"), cursor=cursor)
        return await self._ports.store.list_tools(self._scope(user_id, shared=shared), query)
