"""The runs of a server: the turns of its clients, and the processes that verify and run streams."""

import asyncio
import os
import subprocess
from collections import deque
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

from vdla.hw.spec import children
from vdla.hw.spec.errors import DeviceError
from vdla.runtime.devices.remote.messages import Job, Ran, Refusal, decoded, encoded, read_part, write_part

MODULE = "vdla.runtime.devices.remote.runner"
MOST_PROCESSES = 1024


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


class Runners:
    """Processes that run streams. A process that takes too long, or ends, is replaced; its client notices.

    Args:
        count: of processes.
    """

    def __init__(self, count: int) -> None:
        self._idle = [_started() for _ in range(count)]
        self._all, self._closed = set(self._idle), False
        self._threads = ThreadPoolExecutor(2 * count, "runner")  # a thread may outlive its process

    async def run(self, job: Job, seconds: float) -> Ran | Refusal:
        """Run a job; no more than `count` at the same time.

        Args:
            seconds: that it may take.

        Raises:
            DeviceError: it takes longer, or ends its process.
        """
        if self._closed:
            raise DeviceError("the server is ending; run on another")
        process = self._idle.pop()
        exchange = asyncio.get_running_loop().run_in_executor(self._threads, _exchange, process, encoded(job))
        exchange.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            data = await asyncio.wait_for(asyncio.shield(exchange), seconds)
        except (EOFError, OSError) as error:
            self._replace(process)
            raise DeviceError(_reason(error, seconds)) from error
        except BaseException:
            self._replace(process)
            raise
        self._idle.append(process)
        reply: Ran | Refusal = decoded(data, Ran | Refusal)
        return reply

    def _replace(self, process: "subprocess.Popen[bytes]") -> None:
        """End a process, and start another."""
        self._all.remove(process)
        children.end(process)
        if not self._closed:
            new = _started()
            self._all.add(new)
            self._idle.append(new)

    def close(self) -> None:
        """End all processes, also processes at work."""
        self._closed = True
        for process in self._all:
            children.end(process)
        self._threads.shutdown()


def _reason(error: EOFError | OSError, seconds: float) -> str:
    """Return why a run did not end by itself."""
    if isinstance(error, TimeoutError):
        return (
            f"the run took more than {seconds:g} seconds, which is the limit; run a smaller network, or "
            "start the server with more --run-seconds"
        )
    return "the run ended its process, for want of memory or by a defect; run a smaller network, or report it"


def _started() -> "subprocess.Popen[bytes]":
    """Start a process; it is ready at once, and does its imports before its first job."""
    return children.start(
        children.python_command(MODULE),
        env={**os.environ, **children.import_path()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def _exchange(process: "subprocess.Popen[bytes]", job: bytes) -> bytes:
    """Return what a process replies to a job."""
    assert process.stdin is not None
    assert process.stdout is not None
    write_part(process.stdin, job)
    return read_part(process.stdout)
