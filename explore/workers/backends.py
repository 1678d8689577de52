"""Which workers measure: processes of this machine, or those of a Dask cluster."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager

from vdla.explore.workers.job import Backend, Job, Result, Thing
from vdla.explore.workers.pool import Pool
from vdla.hw.spec.extras import require_package


def backend_of(
    processes: int | None, cluster: str | None, renewed_after: int
) -> Callable[[Job[Thing, Result]], AbstractContextManager[Backend[Thing, Result]]]:
    """Return what makes the workers of a job.

    Args:
        processes: on this machine; None: one for each processor.
        cluster: address of the scheduler of a Dask cluster; None: this machine measures.
        renewed_after: as that of a `Pool`.

    Raises:
        ToolError: a cluster is asked for, and `distributed` is not installed.
    """
    if cluster is None:
        return lambda job: Pool(job, processes or len(os.sched_getaffinity(0)), renewed_after)
    require_package("distributed", "--cluster")
    from vdla.explore.workers.cluster import Cluster

    return lambda job: Cluster(job, cluster)
