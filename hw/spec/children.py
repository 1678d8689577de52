"""Child processes: the way in which the kit starts programs and ends them.

- A child of Python does not import from the current folder.
- A child ends with the thread that has started it, even where SIGKILL ends this process (Linux).
- A child has its own process group. Ctrl-C therefore reaches the kit alone, which ends the child and whatever
  the child has started.
"""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, Self

Word = str | os.PathLike[str]
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Finished:
    """A program that has ended.

    Attributes:
        status: its exit status; less than 0: the number of the signal that ended it.
        output, errors: what it printed.
    """

    status: int
    output: str
    errors: str


def python_command(module: str, *arguments: str) -> list[str]:
    """Return the command line of a module in another Python, which does not import from the current
    folder."""
    return [sys.executable, "-P", "-m", module, *arguments]


def import_path() -> dict[str, str]:
    """Return the environment in which another Python imports from the folders that this process imports
    from."""
    return {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def start(command: Sequence[Word], **options: Any) -> "subprocess.Popen[Any]":
    """Start a program.

    Args:
        options: as in `subprocess.Popen`.

    Raises:
        OSError: it cannot be started.
    """
    return subprocess.Popen(command, process_group=0, preexec_fn=_dies_with(os.getpid()), **options)


def end(process: "subprocess.Popen[Any]") -> int:
    """End a program and the programs that it has started; return its exit status."""
    _kill(process)
    return process.wait()


class Children:
    """Programs that end together: the end of the context ends all that still run.

    Threads may share it.
    """

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[str]] = set()
        self._lock, self._ended = Lock(), False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.end()

    def run(
        self,
        command: Sequence[Word],
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        given: str = "",
        seconds: float | None = None,
    ) -> Finished:
        """Run a program to its end.

        Args:
            folder: in which it runs; None: the current folder.
            environment: variables beside the variables of this process.
            given: its standard input.
            seconds: after which it is ended; None: it may take any time.

        Raises:
            OSError: it cannot be started.
            subprocess.TimeoutExpired: it takes too long.
        """
        process = self._started(command, folder, environment)
        try:
            output, errors = process.communicate(given, seconds)
        finally:
            end(process)
            with self._lock:
                self._running.discard(process)
        return Finished(process.returncode, output, errors)

    def end(self) -> None:
        """End every program that runs; start no other."""
        with self._lock:
            self._ended = True
            for process in self._running:
                _kill(process)

    def _started(
        self, command: Sequence[Word], folder: Path | None, environment: Mapping[str, str] | None
    ) -> "subprocess.Popen[str]":
        with self._lock:
            if self._ended:
                raise OSError(0, "its build was ended")
            process = start(
                command,
                cwd=folder,
                env={**os.environ, **(environment or {})},
                encoding="utf-8",
                errors="replace",
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            self._running.add(process)
        return process


def run(
    command: Sequence[Word],
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    given: str = "",
    seconds: float | None = None,
) -> Finished:
    """Run one program to its end; arguments and errors as in `Children.run`."""
    with Children() as children:
        return children.run(command, folder, environment, given, seconds)


def _kill(process: "subprocess.Popen[Any]") -> None:
    if process.poll() is None:  # else another process may have the number by now
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _dies_with(parent: int) -> Callable[[], None] | None:
    """Return what a child does before its program: it asks the system for SIGKILL when its parent ends. None
    where the system has no such call."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is None:
        return None

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before the request
            os.kill(os.getpid(), signal.SIGKILL)

    return ask
