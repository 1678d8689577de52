"""Work in a fork of this process: what it breaks and imports ends with it."""

import os
import pickle
import resource
import select
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

MEMORY_BYTES = 4 << 30  # of data that a fork may add to the data of its parent
STATM = Path("/proc/self/statm")  # sizes of this process in pages
DATA = 5  # the position of data and stack in STATM
WAITING = 10  # times the processor time that a fork may take by the clock
MOST_FRAMES = -3  # the last of a traceback


class ForkError(Exception):
    """A fork ended without a result."""


class ForkTimeoutError(ForkError):
    """A fork took too long."""


def in_fork(work: Callable[[], Any], seconds: int) -> Any:
    """Return what `work` returns in a fork, which prints nothing.

    Args:
        seconds: of processor time.

    Raises:
        ForkTimeoutError: it takes longer.
        ForkError: it raises something, or ends otherwise, as by a signal.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        _child(work, writing, seconds)
    os.close(writing)
    data = _read(reading, WAITING * seconds)
    os.close(reading)
    if data is None:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if data is None or (os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)):
        raise ForkTimeoutError(f"a fork took more than {seconds} s")
    if not data:
        raise ForkError(f"a fork ended with the status {status} and no result")
    result, error = pickle.loads(data)
    if error:
        raise ForkError(error)
    return result


def _child(work: Callable[[], Any], writing: int, seconds: int) -> None:
    """Write the result of `work`, or what it raises, and end the process."""
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        most_bytes = _data_bytes() + MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_DATA, (most_bytes, most_bytes))
        nothing = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(nothing, stream)
        try:
            result = work(), ""
        except Exception:
            result = None, traceback.format_exc(MOST_FRAMES)
        with os.fdopen(writing, "wb") as out:
            out.write(pickle.dumps(result))
    finally:
        os._exit(0)


def _data_bytes() -> int:
    """Return the size of the data and the stack of this process, as RLIMIT_DATA counts them."""
    return int(STATM.read_text().split()[DATA]) * resource.getpagesize()


def _read(reading: int, seconds: float) -> bytes | None:
    """Return what a pipe holds at its end; None if that takes too long."""
    end, parts = time.monotonic() + seconds, []
    while select.select([reading], [], [], max(0.0, end - time.monotonic()))[0]:
        part = os.read(reading, 1 << 20)
        if not part:
            return b"".join(parts)
        parts.append(part)
    return None
