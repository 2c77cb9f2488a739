"""How many of something a server takes at once, as far as learned from its refusals."""

import asyncio


class Limit:
    """Places that are taken and given back; fewer, once the server refused one."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._used = 0
        self._changed = asyncio.Condition()

    async def take(self) -> None:
        """Wait for a free place."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._used < self.limit)
            self._used += 1

    async def give_back(self) -> None:
        """Free a place."""
        async with self._changed:
            self._used -= 1
            self._changed.notify_all()

    def learn_refusal(self) -> bool:
        """The server refused one more; False if there was no other, so waiting helps nobody."""
        others = self._used - 1
        self.limit = max(1, min(self.limit, others))
        return others > 0
