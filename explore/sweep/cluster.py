"""Sweeps on a Dask cluster: `dask.distributed` brings points to its workers and survives their death."""

import pickle
import warnings
from collections.abc import Iterable, Iterator
from threading import Lock
from types import TracebackType
from typing import Self

from distributed import Client, Future, KilledWorker, as_completed

from vdla.explore.sweep.errors import SweepError
from vdla.explore.sweep.folder import sources
from vdla.explore.sweep.measure import Job, Measured, failed
from vdla.explore.sweep.space import Point

SECONDS_TO_CONNECT = 30
ONE_AT_A_TIME = Lock()  # in a worker that has several threads


def measure(job: Job, point: Point) -> Measured:
    """Measure a point in a worker."""
    with ONE_AT_A_TIME:
        return job.measure(point)


class Cluster:
    """A Dask cluster, as a context manager; its end cancels what is left.

    Args:
        job: what is done with each point.
        address: of the scheduler, as in tcp://10.0.0.1:8786.
    """

    def __init__(self, job: Job, address: str) -> None:
        self._job, self._address = job, address
        self._futures: dict[Future, Point] = {}

    def __enter__(self) -> Self:
        try:
            self._client = Client(self._address, timeout=SECONDS_TO_CONNECT, set_as_default=False)
        except (OSError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise SweepError(
                f"--cluster {self._address}: no Dask scheduler answers there ({reason}); "
                "give the address that the scheduler prints, such as tcp://10.0.0.1:8786"
            ) from error
        self._check_workers()
        with warnings.catch_warnings():  # Dask advises against large arguments; this one is sent once
            warnings.simplefilter("ignore", UserWarning)
            # A task, and not scattered data: the cluster makes it again where a worker that held it has died.
            self._remote_job = self._client.submit(pickle.loads, pickle.dumps(self._job))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._client.cancel(list(self._futures))
        self._client.close()

    def measure(self, points: Iterable[Point]) -> Iterator[Measured]:
        """Yield the result of every point, in the order in which they end."""
        wanted = list(points)
        futures = [self._client.submit(measure, self._remote_job, point, pure=False) for point in wanted]
        self._futures = dict(zip(futures, wanted, strict=True))
        for future in as_completed(futures, loop=self._client.loop):
            yield self._result(future)
            del self._futures[future]

    def _result(self, future: Future) -> Measured:
        try:
            found: Measured = future.result()
        except KilledWorker as error:
            reason = (
                f"{error.allowed_failures + 1} workers died one after another, perhaps for lack of memory"
            )
            return failed(self._job, self._futures[future], reason)
        return found

    def _check_workers(self) -> None:
        """Refuse workers with other sources of the kit: their cycles may differ."""
        try:
            found = self._client.run(sources)
        except ImportError as error:
            self._client.close()
            raise SweepError(
                f"--cluster {self._address}: a worker cannot import the kit ({error}); install it there"
            ) from error
        other = next((worker for worker, digest in found.items() if digest != sources()), None)
        if other is not None:
            self._client.close()
            raise SweepError(
                f"--cluster {self._address}: worker {other} has other sources of the kit "
                f"({found[other][:12]}, here {sources()[:12]}); install the same version there"
            )
