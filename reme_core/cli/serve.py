"""The command that serves a memory to other programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reme_core.cli.changes import read_duration
from reme_core.cli.exits import ExitCode
from reme_core.cli.file_settings import settings_of_files
from reme_core.cli.mcp import check_serving
from reme_core.cli.options import CommonOptions, with_common_options
from reme_core.cli.output import Output
from reme_core.errors import ConfigurationError, InvalidInputError
from reme_core.schema import make_scope
from reme_core.steps.user_input import missing_model_message

if TYPE_CHECKING:
    from reme_core.serve.access import Principal
    from reme_core.serve.guard import GuardRules
    from reme_core.serve.inspect.door import BrowserSessions
    from reme_core.serve.service import Service

LOCAL = "127.0.0.1"
_PORT, _MOST_PORT = 2334, 65_535


def check_port(port: int) -> None:
    """Refuse what is no port (InvalidInputError)."""
    if not 0 <= port <= _MOST_PORT:
        msg = f"--port: wanted a number from 0 to {_MOST_PORT}, found {port}"
        raise InvalidInputError(msg)


def _take_settings(context: typer.Context, path: str | None) -> str | None:
    """Let the settings of a file stand in the environment until the command ends (ConfigurationError)."""
    if path is None:
        return None
    file = Path(path).expanduser()
    if not file.is_file():
        msg = f"--config {path!r}: there is no such file"
        raise ConfigurationError(msg)
    context.with_resource(settings_of_files(file))
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePlan:
    """What is served, and where; see the options of `reme serve`."""

    host: str
    port: int
    allow_host: Sequence[str]
    allow_origin: Sequence[str]
    upstream: str | None
    profile: str
    read_only: bool
    max_body_mib: int
    inspector_writes: bool = False
    evolve_every: timedelta | None = None


async def _serve(
    where: CommonOptions,
    output: Output,
    *,
    host: Annotated[
        str, typer.Option("--host", help="The address to listen on; beyond this machine keys are asked.")
    ] = LOCAL,
    port: Annotated[int, typer.Option("--port", help="The port; 0 takes one that is free.")] = _PORT,
    config: Annotated[
        str | None,
        typer.Option("--config", callback=_take_settings, is_eager=True, help="Settings instead of reme.toml."),
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option("--allow-host", help="A name that this service has; repeatable.")
    ] = None,
    allow_origin: Annotated[
        list[str] | None, typer.Option("--allow-origin", help="An origin whose pages may call; repeatable.")
    ] = None,
    upstream: Annotated[
        str | None,
        typer.Option("--upstream", envvar="REME_UPSTREAM_BASE_URL", help="The model behind /v1/chat/completions."),
    ] = None,
    profile: Annotated[
        str, typer.Option("--profile", help="Which tools of MCP: default, or chatgpt (search and fetch).")
    ] = "default",
    read_only: Annotated[bool, typer.Option("--read-only", help="Nobody may write.")] = False,
    max_body: Annotated[
        int, typer.Option("--max-body", help="MiB that a request may have, 1 to 64; base64 takes a third more.")
    ] = 8,
    inspector_writes: Annotated[
        bool, typer.Option("--inspector-writes", help="The pages under /inspect may change what is kept.")
    ] = False,
    evolve_every: Annotated[
        str | None, typer.Option("--evolve-every", help="Consolidate each user's memories so often: 7d, 12h, 2w.")
    ] = None,
) -> int:
    """Serve the memory by HTTP until Ctrl-C: whoever has a key, and on this machine as --user without one."""
    check_port(port)
    plan = ServicePlan(
        host=host,
        port=port,
        allow_host=allow_host or (),
        allow_origin=allow_origin or (),
        upstream=upstream,
        profile=profile,
        read_only=read_only,
        max_body_mib=max_body,
        inspector_writes=inspector_writes,
        evolve_every=None if evolve_every is None else _period(evolve_every),
    )
    check_serving("reme serve")
    _check_max_body(max_body)
    await run_service(where, output, plan)
    return ExitCode.DONE


def _period(text: str) -> timedelta:
    span = read_duration(text, "--evolve-every")
    if not span:
        msg = f"--evolve-every: wanted a time such as 12h, 7d or 2w, found {text!r:.40}"
        raise InvalidInputError(msg)
    return span


serve = with_common_options(_serve, without={"shared", "as_json"})


async def run_service(where: CommonOptions, output: Output, plan: ServicePlan) -> None:
    """Serve until a signal comes (ConfigurationError: it can't listen, or nobody could call)."""
    from reme_core.serve import doors, process  # noqa: PLC0415  # the other commands need none of it
    from reme_core.serve.chat.upstream import Upstream  # noqa: PLC0415  # as above
    from reme_core.serve.guard import is_loopback  # noqa: PLC0415  # as above
    from reme_core.serve.inspect.door import BrowserSessions  # noqa: PLC0415  # as above
    from reme_core.serve.mcp.options import read_served_profile  # noqa: PLC0415  # as above
    from reme_core.serve.service import make_service  # noqa: PLC0415  # as above

    is_local, profile = is_loopback(plan.host), read_served_profile(plan.profile)
    service = make_service(replace(where, hints=False).open(with_llm=True, with_embedding=True))
    rules = _rules(where, plan, is_local=is_local)
    model = None if plan.upstream is None else Upstream(plan.upstream, os.environ.get("REME_UPSTREAM_API_KEY") or None)
    if plan.evolve_every is not None and service.memories.home.llm is None:
        raise ConfigurationError(missing_model_message("--evolve-every"))
    browsers = BrowserSessions()
    served = doors.make_served(
        service,
        rules,
        model,
        profile=profile,
        evolve_every=plan.evolve_every,
        browsers=browsers,
        inspector_writes=plan.inspector_writes,
    )
    async with process.opened(served) as app:
        await _check_callers(service, rules, is_local=is_local)
        listening = process.listen(plan.host, plan.port)
        who = f"as user {where.user!r} of space {where.space!r}, or " if rules.anonymous is not None else ""
        output.line(f"reme serves {listening.address}, {who}by key; Ctrl-C ends it")
        if rules.anonymous is not None:
            output.line(invitation(browsers, rules.anonymous, listening.address))
        sys.stdout.flush()
        with process.logging_to_stderr():
            await process.serve(app, listening)


def invitation(browsers: BrowserSessions, principal: Principal, address: str) -> str:
    """Return the line with the address that signs a browser in, once."""
    return f"inspector, once within ten minutes: {address}/inspect/open?token={browsers.invite(principal)}"


def _rules(where: CommonOptions, plan: ServicePlan, *, is_local: bool) -> GuardRules:
    from reme_core.serve.guard import MIB, GuardRules  # noqa: PLC0415  # as above

    return GuardRules(
        hosts=[name.lower() for name in (*plan.allow_host, plan.host)],
        origins=plan.allow_origin,
        anonymous=_anonymous(where) if is_local and where.user else None,
        read_only=plan.read_only,
        max_body_bytes=plan.max_body_mib * MIB,
    )


def _check_max_body(mib: int) -> None:
    """Refuse a bound that the service can't keep (InvalidInputError)."""
    from reme_core.serve.guard import MOST_BODY_MIB  # noqa: PLC0415  # as above

    if not 1 <= mib <= MOST_BODY_MIB:
        msg = f"--max-body: wanted 1 to {MOST_BODY_MIB} MiB, found {mib}"
        raise InvalidInputError(msg)


def _anonymous(where: CommonOptions) -> Principal:
    """Return who calls from this machine without a key: the user could do all of it by the other commands, too."""
    from reme_core.serve.access import Principal, Right  # noqa: PLC0415  # as above

    rights = frozenset({Right.READ, Right.WRITE, Right.ADMIN})
    return Principal(scope=make_scope(where.space, **where.whose), rights=rights)


async def _check_callers(service: Service, rules: GuardRules, *, is_local: bool) -> None:
    """Refuse to serve nobody, or everybody (ConfigurationError)."""
    if rules.anonymous is not None or await service.keys.list():
        return
    if is_local:
        msg = "whose memory? Give --user NAME, who needs no key on this machine, or make a key: `reme keys add`"
    else:
        msg = "there is no key, and beyond this machine nobody is let in without one: `reme keys add` makes one"
    raise ConfigurationError(msg)
