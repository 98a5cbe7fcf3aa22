"""Memory blocks on the facade: named, bounded texts that stand in the prompt of an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reme_core.facade.parts import MemoryParts
from reme_core.schema import MemoryBlock, new_id
from reme_core.steps import user_input as inputs
from reme_core.telemetry import traced

if TYPE_CHECKING:
    from reme_core.steps.memory_blocks import BlockWrite, MemoryBlocks


class MemoryBlockMethods:
    """The methods of `ReMe` on memory blocks."""

    async def memory_blocks(
        self: MemoryParts, *, user_id: str | None = None, shared: bool = False
    ) -> list[MemoryBlock]:
        """Return the memory blocks of a user, shared ones that were granted with them, oldest first."""
        return await self._blocks.list(self._scope(user_id, shared=shared))

    async def memory_block_text(self: MemoryParts, *, user_id: str | None = None, shared: bool = False) -> str:
        """Return the memory blocks of a user as a text for a prompt: each quoted as data; "" where there are none."""
        from reme_core.steps.memory_blocks import blocks_text

        return blocks_text(await self._blocks.list(self._scope(user_id, shared=shared)))

    async def get_memory_block(
        self: MemoryParts, label: str, *, user_id: str | None = None, shared: bool = False
    ) -> MemoryBlock:
        """Return a memory block of a user, of their own or granted (MemoryBlockNotFoundError)."""
        return await self._blocks.get(self._scope(user_id, shared=shared), inputs.read_label(label))

    @traced("upsert_memory")
    async def set_memory_block(
        self: MemoryParts,
        label: str,
        text: str | None = None,
        *,
        user_id: str | None = None,
        shared: bool = False,
        description: str | None = None,
        limit_tokens: int | None = None,
        read_only: bool | None = None,
        expected_revision: int | None = None,
        reason: str = "",
    ) -> MemoryBlock:
        """Make a memory block, or change what is given of it and leave the rest.

        Args:
            label: Its name, unique among the blocks of the user.
            text: What it says; may be empty.
            user_id: Whose it is. One that was granted to a user for writing takes a text here, and nothing else.
            shared: In the shared scope, from where `grant_memory_block` lets users see it.
            description: What it is for, as the prompt tells the model.
            limit_tokens: What the text may have; 500 unless it was set.
            read_only: Whether the tools of a model may not change it.
            expected_revision: The revision that was read. Without it, this text replaces whatever there is.
            reason: Why.

        Raises:
            MemoryBlockNotFoundError: A revision is expected of a block that is not there.
            InvalidInputError: A value that can't be used, a text above the limit, or a block granted for reading.
            ConflictError: It has another revision than expected; the message says who changed it when.
        """
        from reme_core.steps.memory_blocks import BlockChange

        change = BlockChange(
            text=None if text is None else inputs.read_text(text, "text"),
            description=None if description is None else inputs.read_description(description),
            limit_tokens=None if limit_tokens is None else inputs.read_token_limit(limit_tokens),
            read_only=None if read_only is None else inputs.read_flag(read_only, "read_only"),
        )
        return await self._blocks.change(
            self._scope(user_id, shared=shared),
            inputs.read_label(label),
            lambda _: change,
            self._block_write(reason),
            expected_revision=None if expected_revision is None else inputs.read_revision(expected_revision),
            makes=True,
        )

    @traced("delete_memory")
    async def delete_memory_block(
        self: MemoryParts,
        label: str,
        *,
        user_id: str | None = None,
        shared: bool = False,
        expected_revision: int | None = None,
        reason: str = "",
    ) -> None:
        """Remove a memory block; its history stays, and `undo` brings it back. Grants of it show nothing from then on.

        Raises:
            MemoryBlockNotFoundError: There is none of this label.
            InvalidInputError: It is a shared one that was granted.
            ConflictError: It has another revision than expected.
        """
        await self._blocks.delete(
            self._scope(user_id, shared=shared),
            inputs.read_label(label),
            self._block_write(reason),
            expected_revision=None if expected_revision is None else inputs.read_revision(expected_revision),
        )

    @traced("upsert_memory")
    async def grant_memory_block(
        self: MemoryParts,
        label: str,
        *,
        user_id: str | None = None,
        shared: bool = False,
        write: bool = False,
        reason: str = "",
    ) -> MemoryBlock:
        """Let a user see a block of the shared scope, and with `write` change its text, until it is revoked.

        The grant is of this block: one that is made anew under its label has to be granted anew.

        Raises:
            MemoryBlockNotFoundError: There is no shared block of this label.
            InvalidInputError: No user is named, or the shared scope is, which needs no grant.
            ConflictError: The user has a block of their own under this label.
        """
        return await self._blocks.grant(
            self._scope(user_id, shared=shared),
            inputs.read_label(label),
            "write" if inputs.read_flag(write, "write") else "read",
            self._block_write(reason),
        )

    @traced("delete_memory")
    async def revoke_memory_block(
        self: MemoryParts, label: str, *, user_id: str | None = None, shared: bool = False, reason: str = ""
    ) -> None:
        """Take back what `grant_memory_block` gave (MemoryBlockNotFoundError: nothing of this label was granted)."""
        await self._blocks.revoke(
            self._scope(user_id, shared=shared), inputs.read_label(label), self._block_write(reason)
        )

    @property
    def _blocks(self: MemoryParts) -> MemoryBlocks:
        from reme_core.steps.memory_blocks import MemoryBlocks

        return MemoryBlocks(store=self._ports.store, counter=self._runtime.counter)

    def _block_write(self: MemoryParts, reason: object) -> BlockWrite:
        from reme_core.steps.memory_blocks import BlockWrite

        return BlockWrite(at=self._clock.now(), reason=inputs.read_text(reason, "reason"), run_id=new_id())
