"""Recipients of an import: who here gets what a user of the source has; never guessed where there are several."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from reme_core.errors import InvalidInputError
from reme_core.schema import Scope, make_scope

_NAMED_USERS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipients:
    """What the caller has said about users.

    Attributes:
        memory_space: The space of all of them.
        scope: Who gets it; None: each user of the source the user of the same name, and what names none is left out.
        source_user: The only user of the source that is taken over; None: not said.
        every_user: Each user of the source goes to the user of the same name; `scope` gets what names no user.
    """

    memory_space: str
    scope: Scope | None
    source_user: str | None = None
    every_user: bool = False

    def choose(self, source: str, users: Collection[str | None]) -> Mapping[str | None, Scope]:
        """Return the scope of each user of a source whose items are taken over; the others are left out.

        Raises:
            InvalidInputError: There are several, and none is named; or the one that is named isn't there; or one has a
                name that no user can have here.
        """
        if self.every_user:
            scopes = {user: self.scope if user is None else self._own(source, user) for user in users}
            return {user: scope for user, scope in scopes.items() if scope is not None}
        assert self.scope is not None  # noqa: S101  # it is asked for where `every_user` is not said
        if self.source_user is not None:
            if self.source_user not in users:
                msg = f"source_user {self.source_user!r} is none of the users in {source}: {_named(users)}"
                raise InvalidInputError(msg)
            return {self.source_user: self.scope}
        if len(users) > 1:
            msg = (
                f"{source} holds what several users have: {_named(users)}. Name one by source_user, or let each go to "
                "the user of the same name by every_user"
            )
            raise InvalidInputError(msg)
        return dict.fromkeys(users, self.scope)

    def _own(self, source: str, user: str) -> Scope:
        try:
            return make_scope(self.memory_space, user_id=user)
        except InvalidInputError as exc:
            msg = f"every_user: {source} has a user whose name nobody can have here, {exc.message}: use source_user"
            raise InvalidInputError(msg) from exc


def _named(users: Collection[str | None]) -> str:
    names = sorted(repr(user[:100]) for user in users if user is not None)
    nobody = ["nobody in particular"] if None in users else []
    more = [f"{len(names) - _NAMED_USERS} more"] if len(names) > _NAMED_USERS else []
    return ", ".join([*names[:_NAMED_USERS], *more, *nobody]) or "it names none"
