"""A worker process: `python -m vdla.explore.workers.worker CONNECTION JOB`.

The arguments are file descriptors: of a connection that brings things and takes results, and of a file with
the pickled job. The process ends when the other end of the connection closes.
"""

import gc
import logging
import os
import pickle
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from vdla.explore.workers.job import READY, Job


def main(connection: Connection, job_file: int) -> None:
    """Measure things until the connection closes."""
    logging.getLogger("vdla").setLevel(logging.ERROR)  # the program that asks says it once
    with suppress(OSError):  # where memory runs out, the system should end a worker and not the program
        Path("/proc/self/oom_score_adj").write_text("1000")
    job: Job[Any, Any] = pickle.loads(os.pread(job_file, os.fstat(job_file).st_size, 0))
    gc.disable()  # compiling makes many objects and hardly any cycles
    gc.freeze()
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        connection.send(READY)
        while True:
            connection.send(job.measure(connection.recv()))
            gc.collect()
            gc.freeze()  # what memos keep is not looked through again, so that things take the same time


if __name__ == "__main__":
    main(Connection(int(sys.argv[1])), int(sys.argv[2]))
