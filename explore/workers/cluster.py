"""Workers of a Dask cluster: `dask.distributed` brings things to them and survives their death."""

import pickle
import warnings
from collections.abc import Iterable, Iterator
from socket import gethostname
from threading import Lock
from types import TracebackType
from typing import Any, Generic, Self

from distributed import Client, Future, KilledWorker, as_completed

from vdla.explore.workers.job import Job, Result, Thing, WorkerError
from vdla.explore.workers.sources import sources

SECONDS_TO_CONNECT = 30
ONE_AT_A_TIME = Lock()  # in a worker that has several threads


def measure(job: Job[Any, Any], thing: Any, wanted: str) -> Any:
    """Measure a thing in a worker.

    Args:
        wanted: digest of the kit's sources here.

    Raises:
        WorkerError: the worker's kit has other sources, so its cycles may differ.
    """
    if sources() != wanted:
        raise WorkerError(
            f"the Dask worker on {gethostname()} has other sources of the kit ({sources()[:12]}, here "
            f"{wanted[:12]}); install the same version there"
        )
    with ONE_AT_A_TIME:
        return job.measure(thing)


class Cluster(Generic[Thing, Result]):
    """A Dask cluster, as a context manager; its end cancels what is left.

    Args:
        job: what is done with each thing.
        address: of the scheduler, as in tcp://10.0.0.1:8786.
        resource: name of a Dask resource of which each thing takes 1; None: any worker measures.
    """

    def __init__(self, job: Job[Thing, Result], address: str, resource: str | None = None) -> None:
        self._job, self._address, self._resource = job, address, resource
        self._futures: dict[Future, Thing] = {}

    def __enter__(self) -> Self:
        try:
            self._client = Client(self._address, timeout=SECONDS_TO_CONNECT, set_as_default=False)
        except (OSError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise WorkerError(
                f"--cluster {self._address}: no Dask scheduler answers there ({reason}); "
                "give the address that the scheduler prints, such as tcp://10.0.0.1:8786"
            ) from error
        try:
            self._require_resource()
        except WorkerError:
            self._client.close()
            raise
        with warnings.catch_warnings():  # Dask advises against large arguments; the job is sent once
            warnings.simplefilter("ignore", UserWarning)
            # A task, and not scattered data: the cluster makes it again where a worker that held it has died.
            self._remote_job = self._client.submit(pickle.loads, pickle.dumps(self._job))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._client.cancel(list(self._futures))
        self._client.close()

    def _require_resource(self) -> None:
        """Refuse a cluster whose workers all lack the resource: its things would wait for ever."""
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        if self._resource and workers and not any(self._resource in each["resources"] for each in workers):
            raise WorkerError(
                f"--cluster {self._address}: none of {len(workers)} workers has the resource "
                f"{self._resource}; start workers with dask worker --resources {self._resource}=1, or leave "
                "--resource out"
            )

    def measure(self, things: Iterable[Thing]) -> Iterator[Result]:
        """Yield the result of every thing, in the order in which they end.

        Raises:
            WorkerError: a worker has another kit, or none.
        """
        wanted, needs = list(things), {self._resource: 1} if self._resource else None
        futures = [
            self._client.submit(measure, self._remote_job, thing, sources(), pure=False, resources=needs)
            for thing in wanted
        ]
        self._futures = dict(zip(futures, wanted, strict=True))
        for future in as_completed(futures, loop=self._client.loop):
            yield self._result(future)
            del self._futures[future]

    def _result(self, future: Future) -> Result:
        try:
            result: Result = future.result()
        except KilledWorker as error:
            reason = (
                f"{error.allowed_failures + 1} workers died one after another, perhaps for lack of memory"
            )
            return self._job.failed(self._futures[future], reason)
        except ImportError as error:
            raise WorkerError(
                f"--cluster {self._address}: a worker cannot import the kit ({error}); install it there"
            ) from error
        return result
