"""Claims of a scope, each target read once: an import in many writes would look for equal memories in each anew."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass, field

from reme_core.ports import Store, Target
from reme_core.rules import Claim, claim_of
from reme_core.schema import Scope
from reme_core.steps.targets import all_memories, memories_about


def digest_of(*parts: str) -> bytes:
    """Return 16 bytes that stand for texts."""
    return hashlib.blake2b("\0".join(parts).encode(errors="surrogatepass"), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class ClaimCache:
    """The claims that a scope held when its targets were first asked for; what came later, a write finds by itself."""

    store: Store
    scope: Scope
    _ids: dict[Target, dict[bytes, str]] = field(default_factory=dict)

    async def find(self, claims: Collection[Claim]) -> dict[Claim, str]:
        """Return the ids of the memories that say what claims say; a `FindClaims`."""
        found: dict[Claim, str] = {}
        for claim in claims:
            target = Target(claim.memory_type, claim.memory_target)
            if target not in self._ids:
                self._ids[target] = await self._read(target)
            if (memory_id := self._ids[target].get(digest_of(*map(str, claim)))) is not None:
                found[claim] = memory_id
        return found

    async def _read(self, target: Target) -> dict[bytes, str]:
        held = await all_memories(self.store, self.scope, memories_about(target))
        told = ((claim_of(memory), memory.memory_id) for memory in held)
        return {digest_of(*map(str, claim)): memory_id for claim, memory_id in told if claim is not None}
