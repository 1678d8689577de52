"""Workers of a Dask cluster that is not there; `tests/explore/sweep/test_cluster.py` runs sweeps on one that is."""

import pytest

from tests.explore.workers.jobs import Doubling
from vdla.explore.workers.cluster import Cluster
from vdla.explore.workers.job import WorkerError


def test_an_address_without_a_scheduler_is_an_error(monkeypatch):
    monkeypatch.setattr("vdla.explore.workers.cluster.SECONDS_TO_CONNECT", 1)
    with (
        pytest.raises(WorkerError, match="no Dask scheduler answers there"),
        Cluster(Doubling(), "tcp://127.0.0.1:9"),
    ):
        pass
