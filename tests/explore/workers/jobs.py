"""A job for the tests of workers, which their processes import."""

import os
import signal
import time
from dataclasses import dataclass

DEADLY = -1


@dataclass(frozen=True)
class Doubling:
    """Doubles numbers; DEADLY kills the worker.

    Attributes:
        seconds: that each takes.
    """

    seconds: float = 0

    def measure(self, thing: int) -> tuple[int, int]:
        """Return twice the number, and the process that has doubled it."""
        if thing == DEADLY:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(self.seconds)
        return 2 * thing, os.getpid()

    def failed(self, thing: int, reason: str) -> str:
        """Return why there is no result."""
        return f"{thing}: {reason}"


@dataclass(frozen=True)
class Unreadable:
    """A job that no worker can read."""

    def __setstate__(self, state: object) -> None:
        raise SystemExit(3)

    def __getstate__(self) -> object:
        return {"unreadable": True}
