"""`reme chat`: talking with Remy, line by line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import Annotated

import typer

from reme_core.background_loop import EventLoopThread
from reme_core.cli.exits import ExitCode, exit_code
from reme_core.cli.items import Item, find_item, id_of_hit, print_hit, print_item, print_memory, sources_of
from reme_core.cli.keyboard import Keyboard
from reme_core.cli.options import (
    DEFAULT_FOLDER,
    DEFAULT_WAIT_S,
    CommonOptions,
    DatabaseUrl,
    Folder,
    Space,
    User,
    Wait,
    Whose,
)
from reme_core.cli.output import Output, counted
from reme_core.cli.wording import one_line
from reme_core.errors import ConfigurationError, InvalidInputError, ReMeError
from reme_core.facade.reme import ReMe
from reme_core.schema import Hit, Job, JobState, Memory, new_id
from reme_core.steps.user_input import missing_model_message, read_id

_HELP = """\
/memories [WORDS]     what is remembered, newest first, numbered; with WORDS, what holds them all
/why                  what the last answer was based on, numbered
/why N                number N with its dates and the messages that it comes from
/forget N [--yes]     delete the memory of number N, after asking; --yes doesn't ask
/help                 this
/exit                 finish the memories that are being made, and leave (as the end of the input does)
Numbers are those of the last answer or the last list, whichever came later. Any other line is said to Remy."""
_LISTED = 100
_QUOTED = 60
_MOST_DIGITS = 9
_WAKE_S = 0.2  # as in `EventLoopThread`


def chat(
    *,
    session: Annotated[str | None, typer.Option("--session", help="Go on with this session.")] = None,
    user: User = None,
    space: Space = "default",
    folder: Folder = DEFAULT_FOLDER,
    database_url: DatabaseUrl = None,
    wait: Wait = DEFAULT_WAIT_S,
) -> int:
    """Talk with Remy, who remembers. /help tells what else can be typed; lines may come from a pipe."""
    where = CommonOptions(
        user=user, shared=False, space=space, folder=folder, wait_s=wait, database_url=database_url or None
    )
    return _talk(where, Output(as_json=False), session_id=session)


def _talk(where: CommonOptions, output: Output, *, session_id: str | None) -> ExitCode:
    """Talk until the input ends.

    Returns:
        DONE, or where the model or the store failed in a turn, the code of the last failure.

    Raises:
        ConfigurationError: There is no chat model; nothing was read.
        InvalidInputError: A user, a memory space or a session that can't be one.
        PartialFailureError: Memories could not be made of all that was said; it is kept, and tried again later.
        KeyboardInterrupt: What was answered is kept, and memories are made of it at the next start.
    """
    whose = where.whose
    session = new_id() if session_id is None else read_id(session_id, "session")
    memory = replace(where, hints=False).open(with_llm=True, with_embedding=True)
    if memory.tool_context(**whose).model is None:
        raise ConfigurationError(missing_model_message("chat"))
    # The main thread reads and prints, so that Ctrl-C reaches it wherever it is.
    loop = EventLoopThread(memory)
    talk = _ChatSession(memory=memory, whose=whose, session_id=session, loop=loop, output=output)
    try:
        talk.until_the_end()
        talk.tell_what_is_left()
    except BaseException:
        talk.leave()
        raise
    loop.end(memory.close())
    return talk.code


class _ChatSession:
    """One session, and what the numbers in it stand for."""

    def __init__(self, *, memory: ReMe, whose: Whose, session_id: str, loop: EventLoopThread, output: Output) -> None:
        self._memory = memory
        self._whose = whose
        self._session_id = session_id
        self._loop = loop
        self._output = output
        self._keyboard = Keyboard()
        self._turns = 0
        self.code = ExitCode.DONE
        self._based_on: Sequence[Hit] = ()
        self._numbered: Sequence[str] = ()
        self._commands: dict[str, Callable[[list[str]], None]] = {
            "/memories": self._list,
            "/why": self._explain,
            "/forget": self._forget,
            "/help": self._help,
        }

    def until_the_end(self) -> None:
        """Answer line after line."""
        prompt = ""
        if self._keyboard.is_terminal:
            self._output.remark("Remy listens. /help tells what else can be typed, /exit ends.")
            prompt = "> "
        while True:
            line = self._keyboard.line(prompt)
            if line is None or line.strip() == "/exit":
                return
            if line.strip():
                self._obey_or_answer(line.strip())

    def tell_what_is_left(self) -> None:
        """Say what closing the memory will wait for, and how to go on."""
        waiting = [job for job in self._open_jobs() if not job.error]
        if waiting:
            self._output.remark(
                f"making memories of what was said ({counted(len(waiting), 'job')} left); Ctrl-C leaves that to later"
            )
        if self._turns:
            self._output.remark(f"to go on: reme chat --session {self._session_id}")

    def leave(self) -> None:
        """Close the memory and leave the work to the next start."""
        with suppress(ReMeError):  # the error that made us leave is the one to be told
            left = self._open_jobs()
            if left:
                self._output.remark(f"what was answered is kept; {counted(len(left), 'job')} left to the next start")
        self._loop.end(self._memory.close(finish_jobs=False), cut_off=True)

    def _open_jobs(self) -> list[Job]:
        if not self._turns:
            return []
        jobs = self._loop.run(self._memory.list_jobs(**self._whose))
        return [job for job in jobs if job.state is not JobState.DEAD]

    def _obey_or_answer(self, line: str) -> None:
        try:
            if line.startswith("/"):
                self._obey(line)
            else:
                self._answer(line)
        except ReMeError as exc:
            if not isinstance(exc, InvalidInputError):
                self.code = exit_code(exc)
            kept = "" if line.startswith("/") else " (nothing of this turn is kept)"
            self._output.remark(f"reme: {exc}{kept}")

    def _obey(self, line: str) -> None:
        name, *words = line.split()
        command = self._commands.get(name)
        if command is None:
            msg = f"there is no {line!r:.60} here, and it is not sent to the model: /help tells what there is"
            raise InvalidInputError(msg)
        command(words)

    def _answer(self, text: str) -> None:
        pieces: SimpleQueue[str | None] = SimpleQueue()
        turn = self._loop.submit(
            self._memory.chat(text, **self._whose, session_id=self._session_id, on_text=pieces.put)
        )
        turn.add_done_callback(lambda _: pieces.put(None))
        has_begun = False
        try:
            for piece in _until_none(pieces):
                self._output.piece(piece)
                has_begun = True
            if has_begun:
                self._output.piece("\n")
            reply = turn.result()
        finally:
            turn.cancel()  # if it is still under way: Ctrl-C, a closed pipe
        self._turns += 1
        self._based_on = reply.results
        self._numbered = [id_of_hit(hit) for hit in reply.results]
        if reply.results:
            self._output.remark(f"({counted(len(reply.results), 'thing')} looked at: /why)")

    def _list(self, words: list[str]) -> None:
        page = self._loop.run(self._memory.list_memories(**self._whose, keyword=" ".join(words) or None, limit=_LISTED))
        self._numbered = [memory.memory_id for memory in page.memories]
        for place, memory in enumerate(page.memories, start=1):
            print_memory(self._output, memory, place=place)
        if not page.memories:
            self._output.remark("no memories" + (" that hold these words" if words else " yet"))
        if page.next_cursor is not None:
            self._output.remark(f"these are the newest {_LISTED}: /memories WORDS narrows them, reme list shows all")

    def _explain(self, words: list[str]) -> None:
        if words:
            found = self._find(_number(words, self._numbered, "/why"))
            messages = self._loop.run(sources_of(self._memory, found, self._whose))
            print_item(self._output, found, messages)
            return
        self._numbered = [id_of_hit(hit) for hit in self._based_on]
        for place, hit in enumerate(self._based_on, start=1):
            print_hit(self._output, place, hit, with_score=False)
        if not self._based_on:
            self._output.remark(
                "the last answer was based on nothing that is remembered" if self._turns else "no answer yet"
            )

    def _forget(self, words: list[str]) -> None:
        is_sure = words[-1:] == ["--yes"]
        found = self._find(_number(words[:-1] if is_sure else words, self._numbered, "/forget"))
        if not isinstance(found, Memory):
            msg = "this is what was said, no memory: only memories can be forgotten here"
            raise InvalidInputError(msg)
        quoted = repr(one_line(found.content)[:_QUOTED])
        if not is_sure and not self._keyboard.agrees(f"forget {quoted}?"):
            self._output.remark("kept")
            return
        self._loop.run(self._memory.delete_memory(found.memory_id, **self._whose, reason="reme chat /forget"))
        self._output.line(f"forgot {quoted}; what was said stays")

    def _help(self, words: list[str]) -> None:
        if words:
            msg = "/help takes nothing"
            raise InvalidInputError(msg)
        self._output.piece(f"{_HELP}\n")

    def _find(self, item_id: str) -> Item:
        return self._loop.run(find_item(self._memory, item_id, self._whose))


def _number(words: list[str], numbered: Sequence[str], command: str) -> str:
    """Return the id that a number stands for (InvalidInputError)."""
    word = words[0] if len(words) == 1 else ""
    if not word.isdecimal() or len(word) > _MOST_DIGITS:
        msg = f"{command} wants one number, such as {command} 1"
        raise InvalidInputError(msg)
    if not 1 <= int(word) <= len(numbered):
        there = f"the numbers go up to {len(numbered)}" if numbered else "nothing is numbered yet"
        msg = f"no number {int(word)}: {there}; /memories and /why number things"
        raise InvalidInputError(msg)
    return numbered[int(word) - 1]


def _until_none(pieces: SimpleQueue[str | None]) -> Iterator[str]:
    while True:
        try:
            piece = pieces.get(timeout=_WAKE_S)
        except Empty:
            continue
        if piece is None:
            return
        yield piece
