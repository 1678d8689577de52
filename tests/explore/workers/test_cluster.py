"""Workers of a missing Dask cluster; `tests/explore/sweep/test_cluster.py` runs sweeps on a real cluster."""

import os

import pytest
from distributed import KilledWorker

from tests.explore.workers.jobs import Doubling
from vdla.explore.workers.cluster import Cluster, measure
from vdla.explore.workers.job import WorkerError
from vdla.explore.workers.sources import sources


def test_an_address_without_a_scheduler_is_an_error(monkeypatch):
    monkeypatch.setattr("vdla.explore.workers.cluster.SECONDS_TO_CONNECT", 1)
    with (
        pytest.raises(WorkerError, match="no Dask scheduler answers there"),
        Cluster(Doubling(), "tcp://127.0.0.1:9"),
    ):
        pass


def test_a_worker_measures_with_the_same_sources_alone():
    assert measure(Doubling(), 4, sources()) == (8, os.getpid())
    with pytest.raises(
        WorkerError, match=r"has other sources of the kit .*here 0123456789ab.; install the same"
    ):
        measure(Doubling(), 4, "0123456789abcdef")


class Ended:
    """What a cluster returns for a thing: an error, or a result."""

    def __init__(self, ending: object) -> None:
        self.ending = ending

    def result(self) -> object:
        if isinstance(self.ending, Exception):
            raise self.ending
        return self.ending


def test_a_thing_whose_workers_die_fails_and_a_worker_without_the_kit_is_an_error():
    cluster = Cluster(Doubling(), "tcp://there:1")
    killed, lost, done = Ended(KilledWorker("t", None, 3)), Ended(ImportError("no vdla")), Ended(8)
    cluster._futures = {killed: 5, lost: 6, done: 4}
    assert cluster._result(done) == 8
    reason = "4 workers died one after another, perhaps for lack of memory"
    assert cluster._result(killed) == f"5: {reason}"
    with pytest.raises(
        WorkerError, match=r"^--cluster tcp://there:1: a worker cannot import the kit \(no vdla\)"
    ):
        cluster._result(lost)
