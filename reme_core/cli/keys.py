"""The commands that make, list and take back the keys of those who call `reme serve`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import JsonValue

from reme_core.cli.exits import ExitCode
from reme_core.cli.options import CommonOptions, of_the_file, with_common_options
from reme_core.cli.output import Output, minute
from reme_core.errors import InvalidInputError
from reme_core.schema import make_scope

if TYPE_CHECKING:
    from reme_core.serve.access import AccessKey

keys = typer.Typer(no_args_is_help=True, help="Make, list and revoke the keys of those who call `reme serve`.")


@with_common_options
async def add(
    where: CommonOptions,
    output: Output,
    *,
    right: Annotated[
        list[str] | None,
        typer.Option("--right", help="read, write, admin or act_as; repeatable. By default read and write."),
    ] = None,
    note: Annotated[str, typer.Option("--note", help="What it is for.")] = "",
) -> int:
    """Make a key for a user; its token is printed this once, and nowhere kept."""
    from reme_core.serve.access import DEFAULT_RIGHTS, AccessKeys  # noqa: PLC0415  # help is shown without it
    from reme_core.steps.costs import SERVICE_SPACE  # noqa: PLC0415  # as above

    scope = make_scope(where.space, **where.whose)
    if scope.memory_space == SERVICE_SPACE:
        msg = f"--space {SERVICE_SPACE!r} holds the keys themselves: give another one"
        raise InvalidInputError(msg)
    rights = right or sorted(DEFAULT_RIGHTS)
    async with where.open() as memory:
        token, key = await AccessKeys(memory.store, memory.clock).add(scope, rights, note=note)
    if output.as_json:
        output.value({"token": token, **_shown(key)})
        return ExitCode.DONE
    output.line(token)
    allowed = ", ".join(sorted(key.rights))
    output.remark(f"key {key.key_id} of user {key.user_id!r}: {allowed}. Keep it: it is not shown again")
    return ExitCode.DONE


@of_the_file
async def list_(where: CommonOptions, output: Output) -> int:
    """List the keys, without their tokens."""
    from reme_core.serve.access import AccessKeys  # noqa: PLC0415  # as above

    where.check_file()
    async with where.open() as memory:
        found = await AccessKeys(memory.store, memory.clock).list()
    if output.as_json:
        output.value({"keys": [_shown(key) for key in found]})
        return ExitCode.DONE
    for key in found:
        whose = f"{key.user_id} in {key.memory_space}"
        output.line(key.key_id, whose, ", ".join(sorted(key.rights)), minute(key.created_at), key.note)
    if not found:
        output.remark("no keys yet: reme keys add --user NAME makes one")
    return ExitCode.DONE


@of_the_file
async def revoke(
    where: CommonOptions,
    output: Output,
    key_id: Annotated[str, typer.Argument(metavar="ID", help="As `reme keys list` shows it.")],
) -> int:
    """Take a key back: from the next request on it is refused."""
    from reme_core.serve.access import AccessKeys  # noqa: PLC0415  # as above

    where.check_file()
    async with where.open() as memory:
        key = await AccessKeys(memory.store, memory.clock).revoke(key_id)
    if output.as_json:
        output.value(_shown(key))
    else:
        output.line(f"revoked {key.key_id} of user {key.user_id!r}")
    return ExitCode.DONE


def _shown(key: AccessKey) -> dict[str, JsonValue]:
    shown: dict[str, JsonValue] = key.model_dump(mode="json")
    rights: list[JsonValue] = [*sorted(key.rights)]
    return {**shown, "rights": rights}


for _name, _command in (("add", add), ("list", list_), ("revoke", revoke)):
    keys.command(_name)(_command)
