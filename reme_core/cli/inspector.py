"""Commands to look at a memory: the inspector in a browser of this machine, and its pictures as files."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reme_core.cli.exits import ExitCode
from reme_core.cli.mcp import check_serving
from reme_core.cli.options import AsOf, CommonOptions, Session, Whose, refuse, with_common_options
from reme_core.cli.output import Output
from reme_core.cli.serve import LOCAL, check_port, invitation
from reme_core.errors import InvalidInputError
from reme_core.schema import make_scope
from reme_core.steps.user_input import read_time

if TYPE_CHECKING:
    from reme_core.facade.reme import ReMe
    from reme_core.serve.inspect.day_charts import DayChart
    from reme_core.serve.inspect.name_map import NameMap
    from reme_core.serve.inspect.pictures import Timeline

# Pages are asked for again: what is not loaded by then, they say, and the next answer has it.
_LOADING_WAIT_S = 0.5


class Picture(StrEnum):
    """What `reme picture` draws."""

    TIMELINE = "timeline"
    MAP = "map"
    GROWTH = "growth"
    COST = "cost"


@with_common_options
async def picture(
    where: CommonOptions,
    output: Output,
    kind: Annotated[Picture, typer.Argument(help="What is drawn.")],
    *,
    out: Annotated[Path, typer.Option("--out", help="The SVG file that is written.")],
    session: Session = None,
    as_of: AsOf = None,
) -> int:
    """Draw as an SVG file what was said and done last, who is related to whom, or growth or cost by day.

    Exit code 1: there is nothing to draw.
    """
    check_serving("reme picture", "jinja2")
    from reme_core.serve.inspect.view import draw  # noqa: PLC0415  # the other commands need none of it

    if kind is not Picture.TIMELINE:
        refuse(f"a picture of {kind}", {"--session": session})
    if kind in {Picture.GROWTH, Picture.COST}:
        refuse(f"a picture of {kind}", {"--as-of": as_of})
    async with where.existing() as (memory, whose):
        made = await _read(kind, memory, whose, session, read_time(as_of, "as_of"))
    if made is None:
        output.remark(f"there is nothing for a {kind}")
        return ExitCode.NOTHING_FOUND
    try:
        out.write_text(draw(kind, made), encoding="utf-8")
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else exc
        msg = f"{str(out)!r} can't be written ({reason}): check the path"
        raise InvalidInputError(msg) from exc
    output.remark(f"{out}: a picture of {kind}")
    return ExitCode.DONE


async def _read(
    kind: Picture, memory: ReMe, whose: Whose, session: str | None, as_of: datetime | None
) -> Timeline | NameMap | DayChart | None:
    """Return what is drawn, None where there is nothing."""
    from reme_core.serve.inspect.day_charts import cost_chart, growth  # noqa: PLC0415  # the other commands need none
    from reme_core.serve.inspect.name_map import read_map  # noqa: PLC0415  # as above
    from reme_core.serve.inspect.time_axis import AskedAxis, read_axis  # noqa: PLC0415  # as above

    scope = make_scope(memory.memory_space, **whose)
    match kind:
        case Picture.TIMELINE:
            return (await read_axis(memory, scope, AskedAxis(session=session, as_of=as_of), _no_link)).picture
        case Picture.MAP:
            drawn = await read_map(memory, scope, as_of, _no_link)
            return drawn if drawn.names else None
        case Picture.GROWTH:
            return await growth(memory, scope)
        case Picture.COST:
            return cost_chart(await memory.costs(**whose))


def _no_link(page: str, **fields: str | int | None) -> str:
    """Return no address: a file leads nowhere."""
    del page, fields
    return ""


async def _inspect(
    where: CommonOptions,
    output: Output,
    *,
    port: Annotated[int, typer.Option("--port", help="The port; one that is free unless given.")] = 0,
    write: Annotated[bool, typer.Option("--write", help="Pages may change what is kept; else they only read.")] = False,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
) -> int:
    """Look at a memory in a browser: what it knows, why it found that, and take it back. Ctrl-C ends it."""
    check_port(port)
    check_serving("reme inspect", "jinja2")
    where.check_file()
    from reme_core.serve import process  # noqa: PLC0415  # the other commands need none of it
    from reme_core.serve.access import Principal, Right  # noqa: PLC0415  # as above
    from reme_core.serve.guard import GuardRules  # noqa: PLC0415  # as above
    from reme_core.serve.inspect.door import BrowserSessions, inspect_routes  # noqa: PLC0415  # as above
    from reme_core.serve.service import make_app, make_service  # noqa: PLC0415  # as above

    principal = Principal(scope=make_scope(where.space, **where.whose), rights=frozenset(Right))
    quiet = replace(where, hints=False)
    home = quiet.open(with_embedding=True, loading_wait_s=_LOADING_WAIT_S)  # without a chat model, which would do jobs
    service, browsers = make_service(home), BrowserSessions()
    # Nobody is let in without the one-time address: the other doors stay closed.
    rules, previewing = GuardRules(hosts=[LOCAL]), quiet.open(with_llm=True, with_embedding=True)
    app = make_app(service, rules, inspect_routes(service, browsers, write=write, previewing=previewing))
    async with process.opened(app) as opened:
        listening = process.listen(LOCAL, port)
        line = invitation(browsers, principal, listening.address)
        output.line(line)
        sys.stdout.flush()
        if not no_browser:
            import webbrowser  # noqa: PLC0415  # as above

            webbrowser.open(line.rpartition(" ")[2])
        try:
            with process.logging_to_stderr():
                await process.serve(opened, listening)
        finally:
            await previewing.close(finish_jobs=False)
    return ExitCode.DONE


inspect = with_common_options(_inspect, without={"shared", "as_json"})
