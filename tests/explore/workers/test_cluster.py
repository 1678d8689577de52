"""Workers of a Dask cluster that is not there; `tests/explore/sweep/test_cluster.py` runs sweeps on one that is."""

import os

import pytest

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
