#!/usr/bin/env python3
"""Give damaged files of every format to the commands that read them; no command may end in a traceback.

No command may hang: each input has 30 s of CPU time and 2 GiB of memory.

Formats: configurations (TOML and VTA's JSON), assembly, conformance vectors, ONNX models, module files,
specifications of sweeps, `sweep.json` and journals in the folders of sweeps, tuning logs, records of runs,
and settings from the environment. Modules, journals and logs get right digests after they were damaged. All
commands that take an accepted input get it. Configurations are shown. Assembly is assembled and disassembled.
Vectors are checked and replayed. Networks are compiled and run, and modules are inspected and run, on the
functional device. Sweeps are planned, resumed, compared and shown. Logs are merged, learned from and used.
Runs are compared. Programs of many steps are counted, not run.

The mutators here damage valid seeds by their structure: JSON trees, protocol buffers by their descriptors,
arrays and their headers, ZIP archives and their directories. Coverage-guided fuzzers (Atheris) need clang and
an instrumented interpreter, and flip bytes that a digest or a checksum refuses first. Hypothesis makes
examples for one test and shrinks them, but does not survive a hang or a crash of its process. Here every
input is a function of its format, its number and the seed, so that any of them can be generated again, and a
process that hangs or dies is replaced.

Failures are kept in build/fuzz: the input and the output. Exit status 1 if there is a failure.
"""

import contextlib
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path

import click
from fuzzing import formats, worker
from fuzzing.worker import ACCEPTED, CHATTER, SKIPPED, TRACEBACK, Outcome

HANG, CRASH, MEMORY = "hang", "crash", "memory"
FAILURES = (TRACEBACK, HANG, CRASH, MEMORY, CHATTER)
SECONDS = 30.0
WALL_SECONDS = 120.0  # for a process that waits; on a busy machine time alone says little
TICKS, RUNNING = os.sysconf("SC_CLK_TCK"), "R"
MOST_BYTES = 2 << 30
STALE_BYTES = 900 << 20  # of a process that is replaced, so that each input is measured from little
NEVER_AGAIN = sys.maxsize  # bytes held by a process that must be replaced, whatever the limits are
WAIT_SECONDS = 0.2
Task = tuple[str, int, int]


@dataclass
class Hand:
    """A process at work.

    Attributes:
        task: what it has; None while it has nothing.
        since: seconds of the processor, and time, when the commands began; None while the input is generated.
    """

    process: multiprocessing.Process
    pipe: Connection
    folder: Path
    task: Task | None = None
    since: tuple[float, float] | None = None


@dataclass
class Campaign:
    """Inputs and what came of them.

    Attributes:
        kept: the folder of failures.
        counts: of verdicts, by format.
        slowest, largest: seconds and bytes of the worst input.
    """

    tasks: deque[Task]
    kept: Path
    counts: dict[str, Counter] = field(default_factory=dict)
    slowest: float = 0.0
    largest: int = 0

    def note(self, task: Task, outcome: Outcome) -> None:
        """Count an outcome; keep the input where it is a failure."""
        verdict = MEMORY if outcome.peak_bytes > MOST_BYTES else outcome.verdict
        self.counts.setdefault(task[0], Counter())[verdict] += 1
        self.slowest, self.largest = max(self.slowest, outcome.seconds), max(self.largest, outcome.peak_bytes)
        if verdict in FAILURES:
            self.keep(
                task, verdict, f"{outcome.seconds:.1f} s, {outcome.peak_bytes >> 20} MiB\n{outcome.detail}"
            )

    def keep(self, task: Task, verdict: str, detail: str) -> None:
        """Write an input and what was said of it."""
        data, suffix, _ = worker.damaged(*task)
        self.kept.mkdir(parents=True, exist_ok=True)
        name = "-".join(map(str, task))
        (self.kept / f"{name}.{suffix}").write_bytes(data)
        (self.kept / f"{name}.txt").write_text(f"{verdict}: {detail}\n", errors="backslashreplace")
        click.echo(f"{verdict}: {self.kept / name}.{suffix}", err=True)

    @property
    def failures(self) -> int:
        """How many inputs failed."""
        return sum(counts[verdict] for counts in self.counts.values() for verdict in FAILURES)


def run(campaign: Campaign, processes: int) -> None:
    """Meet all inputs of a campaign."""
    with (
        tempfile.TemporaryDirectory() as root,
        click.progressbar(length=len(campaign.tasks), file=sys.stderr, hidden=not sys.stderr.isatty()) as bar,
    ):
        hands = [_hired(Path(root)) for _ in range(min(processes, len(campaign.tasks)))]
        while hands:
            wait([hand.pipe for hand in hands], WAIT_SECONDS)
            hands = [kept for hand in hands for kept in _served(hand, campaign, Path(root), bar)]


def _hired(root: Path) -> Hand:
    """Start a process; it is forked, so that all modules and native code are there."""
    ours, theirs = multiprocessing.Pipe()
    folder = Path(tempfile.mkdtemp(dir=root))
    process = multiprocessing.get_context("fork").Process(
        target=worker.serve, args=(theirs, folder), daemon=True
    )
    process.start()
    theirs.close()
    return Hand(process, ours, folder)


def _served(hand: Hand, campaign: Campaign, root: Path, bar) -> Iterator[Hand]:
    """Take what a process says and give it work; yield it, or its successor, while there is work."""
    outcome, held = _heard(hand)
    if outcome is not None:
        campaign.note(hand.task, outcome)
        hand.task = hand.since = None
        bar.update(1)
        if held > STALE_BYTES:
            _dismiss(hand)
            hand = _hired(root)
    if hand.task is None:
        if not campaign.tasks:
            _dismiss(hand)
            return
        hand.task = campaign.tasks.popleft()
        hand.pipe.send(hand.task)
    yield hand


def _heard(hand: Hand) -> tuple[Outcome | None, int]:
    """Return the outcome, None if there is none yet, and the memory that the process holds: NEVER_AGAIN if it
    hangs or has died."""
    try:
        while hand.task is not None and hand.pipe.poll():
            said = hand.pipe.recv()
            if said is not None:
                return said
            hand.since = _spent(hand)[0], time.monotonic()
    except (EOFError, ConnectionResetError):
        hand.process.join()
        return Outcome(CRASH, f"exit code {hand.process.exitcode}", 0.0, 0), NEVER_AGAIN
    if hand.since is not None and _hangs(hand):
        return Outcome(HANG, f"more than {SECONDS} s", SECONDS, 0), NEVER_AGAIN
    return None, 0


def _hangs(hand: Hand) -> bool:
    """Whether a process has computed for too long, or waits; to wait for the processor does not
    count."""
    spent, state = _spent(hand)
    waits = time.monotonic() - hand.since[1] > WALL_SECONDS and state != RUNNING
    return spent - hand.since[0] > SECONDS or waits


def _spent(hand: Hand) -> tuple[float, str]:
    """Return the seconds of the processor that a process has taken, and its state."""
    fields = Path(f"/proc/{hand.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS, fields[0]


def _dismiss(hand: Hand) -> None:
    hand.process.kill()
    hand.process.join()
    hand.pipe.close()
    shutil.rmtree(hand.folder)


def prepare() -> None:
    """Meet a few inputs of each format, so that what is compiled at the first use is there before the
    forks."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name in formats.FORMATS:
            for number in range(3):
                worker.empty(Path(folder))
                data, suffix, steps = worker.damaged(name, number, seed=-1)
                path = formats.FORMATS[name].put(data, Path(folder, f"input.{suffix}"))
                worker.meet(path, steps)


def table(campaign: Campaign) -> str:
    """Return counts by format as text."""
    lines = []
    for name, counts in campaign.counts.items():
        parts = sorted(counts.items(), key=lambda item: (item[0] not in (ACCEPTED, SKIPPED), -item[1]))
        lines.append(
            f"{name:8} {sum(counts.values()):6}: "
            + ", ".join(f"{count} {verdict}" for verdict, count in parts)
        )
    total = sum(sum(counts.values()) for counts in campaign.counts.values())
    return "\n".join(
        [
            *lines,
            f"{total} inputs, {campaign.failures} failures; at most {campaign.slowest:.1f} s "
            f"and {campaign.largest >> 20} MiB",
        ]
    )


def tasks_of(inputs: int, seed: int, first: int, names: tuple[str, ...]) -> deque[Task]:
    """Return inputs in turn of each format."""
    return deque((names[number % len(names)], number, seed) for number in range(first, first + inputs))


@click.command(help=__doc__)
@click.option("--inputs", default=40_000, show_default=True, help="How many.")
@click.option(
    "--first",
    default=0,
    show_default=True,
    help="Number of the first, to go on where a campaign was stopped.",
)
@click.option("--seed", default=0, show_default=True)
@click.option(
    "--format",
    "names",
    multiple=True,
    type=click.Choice(list(formats.FORMATS)),
    help="Only this format; may be repeated.",
)
@click.option("--processes", default=2, show_default=True)
@click.option(
    "--keep",
    "kept",
    default="build/fuzz",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of failures.",
)
def main(inputs: int, first: int, seed: int, names: tuple[str, ...], processes: int, kept: Path) -> None:
    prepare()
    campaign = Campaign(tasks_of(inputs, seed, first, names or tuple(formats.FORMATS)), kept)
    run(campaign, processes)
    click.echo(table(campaign))
    sys.exit(1 if campaign.failures else 0)


if __name__ == "__main__":
    main()
