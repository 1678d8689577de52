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
        self._threads = ThreadPoolExecutor(2 * count, "runner")  # those of ended processes may end later

    async def run(self, job: Job, seconds: float) -> Ran | Refusal:
        """Run a job; no more than `count` at the same time.

        Args:
            seconds: that it may take.

        Raises:
            DeviceError: it takes longer, or ends its process.
        """
        process = self._idle.pop()
        exchange = asyncio.get_running_loop().run_in_executor(self._threads, _exchange, process, encoded(job))
        try:
            data = await asyncio.wait_for(asyncio.shield(exchange), seconds)
        except BaseException as error:
            exchange.add_done_callback(lambda done: done.cancelled() or done.exception())
            children.end(process)
            process = _started()
            if isinstance(error, TimeoutError):
                raise DeviceError(
                    f"the run took more than {seconds:g} seconds, which is the limit; run a smaller network, "
                    "or start the server with more --run-seconds"
                ) from error
            if isinstance(error, EOFError | OSError):
                raise DeviceError("the run ended its process, for want of memory or by a defect") from error
            raise
        finally:
            self._idle.append(process)
        reply: Ran | Refusal = decoded(data, Ran | Refusal)
        return reply

    def close(self) -> None:
        """End all processes."""
        for process in self._idle:
            children.end(process)
        self._threads.shutdown()


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
