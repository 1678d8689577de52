"""One process that meets inputs with commands, and says of each what came of it."""

import gc
import os
import resource
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random

from click.testing import CliRunner, Result

from fuzzing.formats import FORMATS, Step
from vdla.cli import main
from vdla.hw.spec.errors import VdlaError

ACCEPTED, SKIPPED, TRACEBACK, CHATTER = "accepted", "accepted, too long to run", "traceback", "many lines"
MESSAGE_CHARACTERS = 100_000
ADDRESS_SPACE_BYTES = 12 << 30
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
RESET_PEAK = "5"
POLL_SECONDS = 2.0


@dataclass(frozen=True)
class Outcome:
    """What came of an input.

    Attributes:
        verdict: ACCEPTED, SKIPPED, the class of the error that refused it, or a failure: TRACEBACK, CHATTER.
        detail: the command, and what it said.
        seconds: of the processor.
        peak_bytes: the most memory that the process held.
    """

    verdict: str
    detail: str
    seconds: float
    peak_bytes: int


def damaged(name: str, number: int, seed: int) -> tuple[bytes, str, Sequence[Step]]:
    """Return an input, the end of its name, and the commands that meet it; the same for the same numbers."""
    rng = Random(f"{seed}/{name}/{number}")
    data, suffix = FORMATS[name].damaged(rng)
    return data, suffix, tuple(FORMATS[name].steps(rng))


def meet(path: Path, steps: Sequence[Step]) -> Outcome:
    """Run commands on a file until one refuses it."""
    CLEAR.write_text(RESET_PEAK)
    began, verdict, detail = time.process_time(), ACCEPTED, ""
    for step in steps:
        try:
            verdict, detail = _meet(step, path)
        except Exception:
            verdict, detail = TRACEBACK, traceback.format_exc()
        if verdict != ACCEPTED:
            break
    return Outcome(verdict, detail, time.process_time() - began, peak_bytes())


def _meet(step: Step, path: Path) -> tuple[str, str]:
    """Return verdict and detail of one command."""
    places = {"FILE": str(path), "OUT": str(path.parent / "out"), "OUT.vdla": str(path.parent / "out.vdla")}
    arguments = [places.get(word, word) for word in step.arguments]
    target = next(Path(word) for word in arguments if word in places.values())
    if step.fits is not None and not step.fits(target):
        return SKIPPED, ""
    result = CliRunner().invoke(main, arguments)
    detail = f"vdla {' '.join(arguments)}\n{result.stderr[:MESSAGE_CHARACTERS]}"
    return _verdict(result, step), detail if result.exception is None else detail + "".join(
        traceback.format_exception(result.exception)
    )


def _verdict(result: Result, step: Step) -> str:
    if result.exit_code in (0, 1) and (result.exception is None or isinstance(result.exception, SystemExit)):
        return ACCEPTED
    cause = result.exception.__context__ if isinstance(result.exception, SystemExit) else None
    if result.exit_code != 2 or not isinstance(cause, VdlaError):
        return TRACEBACK
    told = result.stderr[result.stderr.index("error: ") :]
    is_long = told.count("\n") > step.shows or len(told) > MESSAGE_CHARACTERS
    return CHATTER if is_long else type(cause).__name__


def peak_bytes() -> int:
    """Return the most memory that the process has held since its peak was reset."""
    lines = STATUS.read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def held_bytes() -> int:
    """Return the memory that the process holds."""
    return next(
        int(line.split()[1]) << 10 for line in STATUS.read_text().splitlines() if line.startswith("VmRSS")
    )


def serve(tasks: Connection, folder: Path) -> None:
    """Meet one input after another, as numbers of them come, until the process is killed or left alone."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    parent = os.getppid()
    while True:
        while not tasks.poll(POLL_SECONDS):
            if os.getppid() != parent:  # who gave the work is gone
                return
        task = tasks.recv()
        data, suffix, steps = damaged(*task)
        path = folder / f"input.{suffix}"
        path.write_bytes(data)
        tasks.send(None)  # from here on the time counts
        tasks.send((meet(path, steps), held_bytes()))
        path.unlink()
        gc.collect(1)
