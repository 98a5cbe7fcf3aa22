"""Consolidation on the facade: shown first, then written as one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import JsonValue, ValidationError

from reme_core.errors import InvalidInputError
from reme_core.facade.parts import MemoryParts
from reme_core.schema import Evolution, describe, new_id, shown
from reme_core.steps import user_input as inputs
from reme_core.telemetry import traced


class EvolutionMethods:
    """The method of `ReMe` that consolidates."""

    @traced("update_memory")
    async def evolve(
        self: MemoryParts,
        *,
        user_id: str | None = None,
        shared: bool = False,
        dry_run: bool = True,
        apply: Evolution | Mapping[str, JsonValue] | None = None,
        forget: bool = False,
        memory_target: str | Sequence[str] | None = None,
    ) -> Evolution:
        """Consolidate memories: those that say the same become one, and what contradicts or never helps is listed.

        One memory of each group stays: it says what all of them say, and has the sources of all. The others are
        superseded by it, and kept. Chains of replacements point at their ends. Contradictions are listed. Without a
        model, memories are joined that differ in punctuation, case and the forms of dates alone; what else may say the
        same is listed. All of it is one write: `undo` of its run takes it back, and a memory that somebody changed
        meanwhile costs its group alone.

        Args:
            user_id: Whose memories.
            shared: Those of the shared scope of the space, in place of a user's.
            dry_run: Show what would be done, and write nothing.
            apply: Write just this plan, which a dry run has shown, whatever `dry_run` says; no model is asked.
            forget: Also remove the procedural memories that were used often and seldom helped, which else are listed.
            memory_target: Only about one or several targets.

        Raises:
            InvalidInputError: A plan that is none.
            ModelError: The model failed; nothing was written.
            ConflictError: Others changed memories of the plan again and again; nothing was written.
        """
        from reme_core.evolve.evolution_plan import plan_evolution
        from reme_core.evolve.evolution_write import apply_evolution
        from reme_core.facade.learning_service import flow_context
        from reme_core.schema.changes import EVOLVE

        scope, removes = await self._looked_up(user_id, shared=shared), inputs.read_flag(forget, "forget")
        is_shown_alone, targets = inputs.read_flag(dry_run, "dry_run"), inputs.read_targets(memory_target)
        context = flow_context(self._runtime, self._language, scope, new_id())
        if apply is not None:
            plan = _read_plan(apply)
        else:
            try:
                plan = await plan_evolution(context, targets=targets)
            finally:
                await self._costs.add(scope, EVOLVE, context.trace.usage)
            if is_shown_alone:
                return plan
        done = await apply_evolution(context, plan, forget=removes)
        self._work.start(scope)
        return done


def _read_plan(value: object) -> Evolution:
    """Read a plan that a dry run has shown (InvalidInputError)."""
    if not isinstance(value, (Evolution, Mapping)):
        msg = f"apply: wanted the Evolution that a dry run has shown, found {shown(value)}"
        raise InvalidInputError(msg)
    try:
        return Evolution.model_validate(dict(value))
    except ValidationError as exc:
        raise InvalidInputError(describe(exc, "apply")) from exc
