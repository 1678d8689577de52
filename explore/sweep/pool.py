"""A pool of worker processes on this machine.

Each worker measures one point at a time, so that a worker that dies names its point. Workers are started by
command line: the program that sweeps is not imported again, as it would be by `multiprocessing`.
"""

import os
import pickle
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe, wait
from types import TracebackType
from typing import Protocol, Self

from vdla.explore.sweep.errors import SweepError
from vdla.explore.sweep.measure import Job, Measured, failed
from vdla.explore.sweep.space import Point
from vdla.explore.sweep.worker import READY

ATTEMPTS = 2  # at a point whose worker dies
POINTS_PER_WORKER = 250  # then a new process takes over: what memos keep takes about a megabyte per point
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Backend(Protocol):
    """What measures points, several at once."""

    def measure(self, points: Iterable[Point]) -> Iterator[Measured]:
        """Yield the result of every point, in the order in which they end."""


class _Worker:
    """A worker process.

    Args:
        job_file: descriptor of a file with the pickled job.
    """

    def __init__(self, job_file: int) -> None:
        self.connection, theirs = Pipe()
        self.ready = False
        self.measured = 0
        environment = {**ONE_THREAD, **os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        line = [sys.executable, "-m", "vdla.explore.sweep.worker", str(theirs.fileno()), str(job_file)]
        with theirs:
            self.process = subprocess.Popen(
                line,
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), job_file),
                env=environment,
                process_group=0,  # Ctrl-C reaches the sweep alone, which ends its workers
            )

    def end(self) -> int:
        """End the process; return its exit status."""
        self.connection.close()
        self.process.kill()
        return self.process.wait()


@dataclass(slots=True)
class _Task:
    """A point that a worker measures, and how often that was tried."""

    point: Point
    attempts: int = 0


class Pool:
    """Worker processes, as a context manager; its end kills them.

    Args:
        job: what is done with each point.
        processes: how many workers.
    """

    def __init__(self, job: Job, processes: int) -> None:
        self._job, self._processes = job, processes
        self._workers: dict[Connection, _Worker] = {}
        self._tasks: dict[Connection, _Task] = {}

    def __enter__(self) -> Self:
        self._file = os.memfd_create("sweep")
        with open(self._file, "wb", closefd=False) as file:
            pickle.dump(self._job, file)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for worker in self._workers.values():
            worker.end()
        os.close(self._file)

    def measure(self, points: Iterable[Point]) -> Iterator[Measured]:
        """Yield the result of every point, in the order in which they end.

        Raises:
            SweepError: workers do not start.
        """
        waiting = deque(_Task(point) for point in points)
        while waiting or self._tasks:
            self._assign(waiting)
            for one in wait(list(self._workers)):
                assert isinstance(one, Connection), "only connections are waited for"
                result = self._received(one, waiting)
                if result is not None:
                    yield result

    def _assign(self, waiting: deque[_Task]) -> None:
        """Give every idle worker a point; start workers while points wait."""
        missing = min(self._processes, len(self._tasks) + len(waiting)) - len(self._workers)
        for _ in range(missing):
            worker = _Worker(self._file)
            self._workers[worker.connection] = worker
        for connection, worker in self._workers.items():
            if worker.ready and connection not in self._tasks and waiting:
                task = waiting.popleft()
                self._tasks[connection] = task
                connection.send(task.point)

    def _received(self, connection: Connection, waiting: deque[_Task]) -> Measured | None:
        """Return the result that a worker sends; None where it has started, or died."""
        try:
            message = connection.recv()
        except (EOFError, ConnectionResetError):
            return self._died(connection, waiting)
        if message == READY:
            self._workers[connection].ready = True
            return None
        assert isinstance(message, Measured), "a worker sends READY, then results"
        del self._tasks[connection]
        worker = self._workers[connection]
        worker.measured += 1
        if worker.measured == POINTS_PER_WORKER:
            del self._workers[connection]
            worker.end()
        return message

    def _died(self, connection: Connection, waiting: deque[_Task]) -> Measured | None:
        """Let another worker try the point of a dead one; at the last attempt return its failure."""
        worker, task = self._workers.pop(connection), self._tasks.pop(connection, None)
        worker.connection.close()
        status = ended(worker.process.wait())
        if not worker.ready:
            raise SweepError(f"a worker process ended before its first point: {status}")
        if task is None:
            return None
        task.attempts += 1
        if task.attempts < ATTEMPTS:
            waiting.appendleft(task)
            return None
        return failed(self._job, task.point, f"the worker process died {ATTEMPTS} times: {status}")


def ended(status: int) -> str:
    """Return in words how a process ended."""
    if status >= 0:
        return f"exit status {status}"
    name = signal.Signals(-status).name
    return f"{name}, perhaps for lack of memory" if -status == signal.SIGKILL else name
