"""Sweeps on a local Dask cluster of two workers."""

import os
import signal

import pytest
from distributed import LocalCluster, Nanny, Scheduler, SpecCluster

from tests.explore.sweep.sweeps import plan
from tests.explore.workers.jobs import Doubling
from vdla.explore.sweep.folder import LAYERS, POINTS
from vdla.explore.sweep.run import backend_of, sweep
from vdla.explore.workers.cluster import Cluster
from vdla.explore.workers.job import WorkerError


@pytest.fixture(scope="module")
def cluster():
    """Return a cluster of two workers."""
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as local_cluster:
        yield local_cluster


def test_a_cluster_whose_worker_is_killed_makes_the_same_tables(cluster, tmp_path):
    sweep(plan(), tmp_path / "here", backend_of(2, None))
    pids = iter([info.pid for info in cluster.workers.values()])

    def kill(progress):
        if progress.done == 2:
            os.kill(next(pids), signal.SIGKILL)

    done = sweep(plan(), tmp_path / "there", backend_of(None, cluster.scheduler_address), kill)
    assert (done.done, done.failed) == (8, 0)
    for name in (POINTS, LAYERS):
        assert (tmp_path / "there" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()


def test_workers_of_another_kit_are_refused(cluster, monkeypatch, tmp_path):
    planned = plan()
    monkeypatch.setattr("vdla.explore.workers.cluster.sources", lambda: "another digest")
    with pytest.raises(WorkerError, match="has other sources of the kit"):
        sweep(planned, tmp_path, backend_of(None, cluster.scheduler_address))


def test_things_go_to_workers_with_the_resource():
    process = {"nthreads": 1, "silence_logs": "ERROR"}
    workers = {
        "with": {"cls": Nanny, "options": {**process, "resources": {"vdla": 1}}},
        "without": {"cls": Nanny, "options": process},
    }
    scheduler = {"cls": Scheduler, "options": {"dashboard": False, "port": 0}}
    with SpecCluster(workers, scheduler) as cluster:
        address = cluster.scheduler_address
        with (
            pytest.raises(
                WorkerError, match="none of 2 workers has the resource board; start workers with dask"
            ),
            Cluster(Doubling(), address, "board"),
        ):
            pass
        with Cluster(Doubling(), address, "vdla") as measuring:
            assert {pid for _, pid in measuring.measure(range(6))} == {cluster.workers["with"].pid}
