"""Sweeps on a Dask cluster: `dask.distributed` brings points to its workers and survives their death."""

import pickle
import warnings
from collections.abc import Iterable, Iterator
from socket import gethostname
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


def measure(job: Job, point: Point, wanted: str) -> Measured:
    """Measure a point in a worker.

    Args:
        wanted: digest of the kit's sources that the sweep has.

    Raises:
        SweepError: the worker's kit has other sources, so its cycles may differ.
    """
    if sources() != wanted:
        raise SweepError(
            f"the Dask worker on {gethostname()} has other sources of the kit ({sources()[:12]}, here "
            f"{wanted[:12]}); install the same version there"
        )
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
        """Yield the result of every point, in the order in which they end.

        Raises:
            SweepError: a worker has another kit, or none.
        """
        wanted = list(points)
        futures = [
            self._client.submit(measure, self._remote_job, point, sources(), pure=False) for point in wanted
        ]
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
        except ImportError as error:
            raise SweepError(
                f"--cluster {self._address}: a worker cannot import the kit ({error}); install it there"
            ) from error
        return found
