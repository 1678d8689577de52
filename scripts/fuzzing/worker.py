"""One process that meets inputs with commands, and says of each what came of it."""

import gc
import os
import resource
import shutil
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random

from click.testing import CliRunner, Result

from fuzzing.formats import FORMATS, constants
from fuzzing.steps import Step
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
    """Run commands on a file until a command refuses it."""
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
    """Return verdict and detail of a command."""
    arguments = [_placed(word, path) for word in step.arguments]
    target = next((Path(word) for word in arguments if Path(word).parent == path.parent), path)
    if step.fits is not None and not step.fits(target if target.exists() else path):
        return SKIPPED, ""
    if step.call is not None:
        return _called(step, step.call, path)
    result = CliRunner().invoke(main, arguments, env=step.settings and step.settings(path))
    detail = f"vdla {' '.join(arguments)}\n{result.stderr[:MESSAGE_CHARACTERS]}"
    return _verdict(result, step), detail if result.exception is None else detail + "".join(
        traceback.format_exception(result.exception)
    )


def _placed(word: str, path: Path) -> str:
    """Return an argument of a command with the places that its words stand for."""
    if word == "FILE" or word.startswith("FILE/"):
        return f"{path}{word.removeprefix('FILE')}"
    beside = {"OUT": "out", "OUT.vdla": "out.vdla"} | {name: name for name in constants()}
    return str(path.parent / beside[word]) if word in beside else word


def _called(step: Step, call: Callable[[Path], object], path: Path) -> tuple[str, str]:
    """Return verdict and detail of a function of the kit."""
    try:
        call(path)
    except VdlaError as error:
        told = f"error: {error}\n"
        return _refusal(error, told, step), told
    return ACCEPTED, ""


def _verdict(result: Result, step: Step) -> str:
    if result.exit_code in (0, 1) and (result.exception is None or isinstance(result.exception, SystemExit)):
        return ACCEPTED
    cause = result.exception.__context__ if isinstance(result.exception, SystemExit) else None
    if result.exit_code != 2 or not isinstance(cause, VdlaError):
        return TRACEBACK
    return _refusal(cause, result.stderr[result.stderr.index("error: ") :], step)


def _refusal(error: VdlaError, told: str, step: Step) -> str:
    is_long = told.count("\n") > step.shows or len(told) > MESSAGE_CHARACTERS
    return CHATTER if is_long else type(error).__name__


def peak_bytes() -> int:
    """Return the most memory that the process has held since its peak was reset."""
    lines = STATUS.read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def held_bytes() -> int:
    """Return the memory that the process holds."""
    return next(
        int(line.split()[1]) << 10 for line in STATUS.read_text().splitlines() if line.startswith("VmRSS")
    )


def empty(folder: Path) -> None:
    """Leave nothing in a folder but the constants; the folder itself stays, for the process may be killed
    here, and its parent removes the folder then."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    os.chdir(folder)  # whatever has a relative name stays in it
    for name, contents in constants().items():
        (folder / name).write_bytes(contents)


def serve(tasks: Connection, folder: Path) -> None:
    """Meet one input after another, as numbers of them come, until the process is killed or left alone."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    parent = os.getppid()
    empty(folder)
    while True:
        while not tasks.poll(POLL_SECONDS):
            if os.getppid() != parent:  # who gave the work is gone
                return
        task = tasks.recv()
        data, suffix, steps = damaged(*task)
        path = FORMATS[task[0]].put(data, folder / f"input.{suffix}")
        tasks.send(None)  # from here on the time counts
        tasks.send((meet(path, steps), held_bytes()))
        empty(folder)
        gc.collect(1)
