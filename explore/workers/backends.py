"""Workers: processes of this machine, processes of a Dask cluster, or this process, for jobs inside a job.

Each process of this machine measures one thing at a time, so that a worker that dies names its thing. Workers
are started by command line: the program that asks is not imported again, as it would be by `multiprocessing`.
"""

import os
import pickle
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Connection, Pipe, wait
from types import TracebackType
from typing import Any, Generic, Self

from vdla.explore.workers.job import READY, Backend, Job, Result, Thing, WorkerError
from vdla.hw.spec.children import end, import_path, python_command, start
from vdla.hw.spec.extras import require_package

ATTEMPTS = 2  # at a thing whose worker dies
LOOK_AHEAD = 64  # waiting things among which a worker chooses
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def nothing_shared(thing: object) -> Hashable:
    """Return a value that is equal to no other value: the measurements of two things share no work."""
    return object()


def backend_of(
    processes: int | None,
    cluster: str | None,
    renewed_after: int,
    resource: str | None = None,
    shared: Callable[[Any], Hashable] = nothing_shared,
) -> Callable[[Job[Thing, Result]], AbstractContextManager[Backend[Thing, Result]]]:
    """Return what makes the workers of a job.

    Args:
        processes: on this machine; None: one for each processor.
        cluster: address of the scheduler of a Dask cluster; None: this machine measures.
        renewed_after, shared: as in `Pool`.
        resource: as in `Cluster`.

    Raises:
        ToolError: a cluster is asked for, and `distributed` is not installed.
    """
    if cluster is None:
        return lambda job: Pool(job, processes or len(os.sched_getaffinity(0)), renewed_after, shared)
    require_package("distributed", "--cluster")
    from vdla.explore.workers.cluster import Cluster

    return lambda job: Cluster(job, cluster, resource)


class _Worker:
    """A worker process.

    Args:
        job_file: descriptor of a file with the pickled job.
    """

    def __init__(self, job_file: int) -> None:
        self.connection, theirs = Pipe()
        self.ready = False
        self.measured = 0
        self.share: Hashable = None  # of its latest thing
        with theirs:
            self.process = start(
                python_command("vdla.explore.workers.worker", str(theirs.fileno()), str(job_file)),
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), job_file),
                env={**ONE_THREAD, **os.environ, **import_path()},
            )

    def end(self) -> int:
        """End the process; return its exit status."""
        self.connection.close()
        return end(self.process)


@dataclass(slots=True)
class _Task(Generic[Thing]):
    """A thing that a worker measures, and how often that was tried."""

    thing: Thing
    attempts: int = 0


class Pool(Generic[Thing, Result]):
    """Worker processes, as a context manager; its end kills them.

    Args:
        job: what is done with each thing.
        processes: how many workers.
        renewed_after: things, after which a new process takes over from a worker: memos grow.
        shared: returns equal values for things whose measurements share work, which memos of a worker hold.
    """

    def __init__(
        self,
        job: Job[Thing, Result],
        processes: int,
        renewed_after: int,
        shared: Callable[[Thing], Hashable] = nothing_shared,
    ) -> None:
        self._job, self._processes, self._renewed_after = job, processes, renewed_after
        self._shared = shared
        self._workers: dict[Connection, _Worker] = {}
        self._tasks: dict[Connection, _Task[Thing]] = {}

    def __enter__(self) -> Self:
        self._file = os.memfd_create("job")
        with open(self._file, "wb", closefd=False) as file:
            pickle.dump(self._job, file)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for worker in self._workers.values():
            worker.end()
        os.close(self._file)

    def measure(self, things: Iterable[Thing]) -> Iterator[Result]:
        """Yield the result of every thing, in the order in which they end.

        Raises:
            WorkerError: workers do not start.
        """
        waiting = deque(_Task(thing) for thing in things)
        while waiting or self._tasks:
            self._assign(waiting)
            for connection in wait(list(self._workers)):
                assert isinstance(connection, Connection), "only connections are waited for"
                yield from self._received(connection, waiting)

    def _assign(self, waiting: deque[_Task[Thing]]) -> None:
        """Give every idle worker a thing; start workers while things wait."""
        missing = min(self._processes, len(self._tasks) + len(waiting)) - len(self._workers)
        for _ in range(missing):
            worker = _Worker(self._file)
            self._workers[worker.connection] = worker
        for connection, worker in self._workers.items():
            if worker.ready and connection not in self._tasks and waiting:
                task = self._taken(waiting, worker)
                worker.share = self._shared(task.thing)
                self._tasks[connection] = task
                connection.send(task.thing)

    def _taken(self, waiting: deque[_Task[Thing]], worker: _Worker) -> _Task[Thing]:
        """Take a thing for a worker: of the next LOOK_AHEAD things the first that shares work with the
        worker's latest thing, else the first that shares none with the latest things of other workers, else
        the first."""
        shares = [self._shared(task.thing) for task in islice(waiting, LOOK_AHEAD)]
        others = {other.share for other in self._workers.values() if other is not worker}
        free = (place for place, share in enumerate(shares) if share not in others)
        place = shares.index(worker.share) if worker.share in shares else next(free, 0)
        task = waiting[place]
        del waiting[place]
        return task

    def _received(self, connection: Connection, waiting: deque[_Task[Thing]]) -> list[Result]:
        """Return the result that a worker sends; none where it has started, or died."""
        try:
            message: Any = connection.recv()
        except (EOFError, ConnectionResetError):
            return self._died(connection, waiting)
        worker = self._workers[connection]
        if not worker.ready:
            assert message == READY, "a worker sends READY, then results"
            worker.ready = True
            return []
        del self._tasks[connection]
        worker.measured += 1
        if worker.measured == self._renewed_after:
            del self._workers[connection]
            worker.end()
        return [message]

    def _died(self, connection: Connection, waiting: deque[_Task[Thing]]) -> list[Result]:
        """Let another worker try the thing of a dead worker; at the last attempt return its failure."""
        worker, task = self._workers.pop(connection), self._tasks.pop(connection, None)
        worker.connection.close()
        status = ended(worker.process.wait())
        if not worker.ready:
            raise WorkerError(f"a worker process ended before its first result: {status}")
        if task is None:
            return []
        task.attempts += 1
        if task.attempts < ATTEMPTS:
            waiting.appendleft(task)
            return []
        return [self._job.failed(task.thing, f"the worker process died {ATTEMPTS} times: {status}")]


def ended(status: int) -> str:
    """Return in words how a process ended."""
    if status >= 0:
        return f"exit status {status}"
    name = signal.Signals(-status).name
    return f"{name}, perhaps for lack of memory" if -status == signal.SIGKILL else name


@dataclass(frozen=True)
class Here(Generic[Thing, Result]):
    """Measures one thing after another, in their order.

    Attributes:
        job: what is done with each thing.
    """

    job: Job[Thing, Result]

    def measure(self, things: Iterable[Thing]) -> Iterator[Result]:
        """Yield the result of every thing."""
        return map(self.job.measure, things)


def here(job: Job[Thing, Result]) -> AbstractContextManager[Backend[Thing, Result]]:
    """Return the worker of a job."""
    return nullcontext(Here(job))
