"""Turns of clients that want the same few places: round robin over clients, whatever each has asked for."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from vdla.hw.spec.errors import DeviceError


class Turns:
    """Places for runs, and the queue in front of them.

    Waiting clients stand in a circle, and a free place goes to the next of them. A client joins the circle
    behind all others.

    Args:
        places: runs at the same time.
        longest: runs that may wait.
    """

    def __init__(self, places: int, longest: int) -> None:
        self._free, self._longest = places, longest
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  # the next client first

    @asynccontextmanager
    async def turn(self, client: str, seconds: float) -> AsyncIterator[None]:
        """Hold a place.

        Args:
            client: whose turn it is.
            seconds: to wait for it at most.

        Raises:
            DeviceError: the queue is full, or the wait takes too long.
        """
        await self._enter(client, seconds)
        try:
            yield
        finally:
            self._leave()

    async def _enter(self, client: str, seconds: float) -> None:
        if self._free:
            self._free -= 1
            return
        waiting = sum(map(len, self._waiting.values()))
        if waiting >= self._longest:
            raise DeviceError(
                f"the queue holds {waiting} runs, and the limit is {self._longest}; run again later"
            )
        place = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, deque()).append(place)
        try:
            await asyncio.wait_for(asyncio.shield(place), seconds)
        except BaseException as error:
            self._give_up(client, place)
            if isinstance(error, TimeoutError):
                raise DeviceError(
                    f"the run waited {seconds:g} seconds, which is the limit; run again later"
                ) from error
            raise

    def _give_up(self, client: str, place: "asyncio.Future[None]") -> None:
        """Wait no longer; a place that was handed over in the same moment goes to the next client."""
        if place.done():
            self._leave()
            return
        self._waiting[client].remove(place)
        if not self._waiting[client]:
            del self._waiting[client]

    def _leave(self) -> None:
        """Hand a place to the next client."""
        if not self._waiting:
            self._free += 1
            return
        client = next(iter(self._waiting))
        queue = self._waiting.pop(client)
        queue.popleft().set_result(None)
        if queue:
            self._waiting[client] = queue  # behind all others
