"""The processes in which a server verifies and runs streams."""

import asyncio
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

from vdla.hw.spec import children
from vdla.hw.spec.errors import DeviceError
from vdla.runtime.devices.remote.messages import Job, Ran, Refusal, decoded, encoded
from vdla.runtime.devices.remote.runner import read_part, write_part

MODULE = "vdla.runtime.devices.remote.runner"


class Runners:
    """Processes that run streams. One that takes too long, or ends, is replaced; its client alone notices.

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
        """End all processes, those at work too."""
        self._closed = True
        for process in self._all:
            children.end(process)
        self._threads.shutdown()


def _reason(error: EOFError | OSError, seconds: float) -> str:
    """Return why a run did not end by itself."""
    if isinstance(error, TimeoutError):
        return (
            f"the run took more than {seconds:g} seconds, which is the limit; run a smaller network, or start "
            "the server with more --run-seconds"
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
