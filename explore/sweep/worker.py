"""A worker process of a sweep: `python -m vdla.explore.sweep.worker CONNECTION JOB`.

The arguments are file descriptors: of a connection that brings points and takes results, and of a file with
the pickled job. The process ends when the other end of the connection closes.
"""

import gc
import os
import pickle
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from vdla.explore.sweep.measure import Job

READY = "ready"


def main(connection: Connection, job_file: int) -> None:
    """Measure points until the connection closes."""
    with suppress(OSError):  # where memory runs out, the system should end a worker and not the sweep
        Path("/proc/self/oom_score_adj").write_text("1000")
    job: Job = pickle.loads(os.pread(job_file, os.fstat(job_file).st_size, 0))
    gc.disable()  # compiling makes many objects and hardly any cycles
    gc.freeze()
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        connection.send(READY)
        while True:
            connection.send(job.measure(connection.recv()))
            gc.collect()
            gc.freeze()  # what memos keep is not looked through again, so that points take the same time


if __name__ == "__main__":
    main(Connection(int(sys.argv[1])), int(sys.argv[2]))
