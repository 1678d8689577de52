"""Simulated runs for several commands: of vectors, and of the launches of modules."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.hw.spec.memory import REFERENCE_MEMORY
from vdla.hw.spec.sdram import AnyMemory
from vdla.runtime.vectors import load_vector, stream_address
from vdla.sim.decoded import decode_stream
from vdla.sim.interleave import interleave
from vdla.sim.overwrites import refuse_overwrites
from vdla.sim.timing.result import Timing
from vdla.sim.timing.simulate import simulate
from vdla.sim.trace.layers import TracedLayer

if TYPE_CHECKING:
    from vdla.runtime.module.plan import Plan
    from vdla.runtime.session.report import Report
    from vdla.runtime.session.session import Outcome

MODULE = ".vdla"
MemoryOf = Callable[[AnyMemory], AnyMemory]
"""Returns the memory of a run, given the target's memory."""


@dataclass(frozen=True, eq=False)
class TimedRun:
    """A program that was simulated with a log.

    Attributes:
        name: of the file, and of the launch where it has several.
        memory: that it ran with.
        layers: of a network's launch.
    """

    name: str
    timing: Timing
    memory: AnyMemory
    layers: tuple[TracedLayer, ...] = ()


def timed_runs(path: Path, name: str, memory: MemoryOf) -> tuple[TimedRun, ...]:
    """Simulate the program of a vector, or the launches of a module; a module without launches has none.

    Runs that the hardware would stop are returned, too.

    Raises:
        OverwriteError: a program would change itself.
        ModuleError: the file is no module.
    """
    if path.suffix == MODULE:
        return _launches(path, name, memory)
    chosen = memory(REFERENCE_MEMORY)
    return (TimedRun(name, time_vector(path, chosen), chosen),)


def _launches(path: Path, name: str, memory: MemoryOf) -> tuple[TimedRun, ...]:
    from vdla.api import load
    from vdla.runtime.session.report import report

    module = load(path)
    chosen = memory(module.plan.target.memory)
    outcome = module.rehearse(chosen)
    run_report = report(module.plan, outcome, "cycle", memory=chosen)
    return launched(module.plan, outcome, run_report, name, chosen)


def launched(
    plan: "Plan", outcome: "Outcome", run_report: "Report", name: str, memory: AnyMemory
) -> tuple[TimedRun, ...]:
    """Return the launches of a network's run on the cycle device.

    Args:
        plan, outcome, run_report: the network, its run and the report of the run.
        name: of the network; of several launches each has a number, too.
        memory: that it ran with.
    """
    from vdla.runtime.session.traced import traced

    single, runs = len(plan.launches) == 1, []
    for number, (ran, layers) in enumerate(traced(plan, outcome, run_report), 1):
        assert ran.timing is not None, "the cycle device times every launch"
        runs.append(TimedRun(name if single else f"{name} {number}", ran.timing, memory, layers))
    return tuple(runs)


def time_vector(path: Path, memory: AnyMemory) -> Timing:
    """Simulate a vector's program, with a log. A run that the hardware would stop is returned, too.

    Raises:
        OverwriteError: the program would change itself.
    """
    vector = load_vector(path)
    program, address = decode_stream(vector.stream, vector.config), stream_address(vector)
    refuse_overwrites(program, address)
    return simulate(program, memory, stream_address=address, log=True)


def numbered(path: Path, runs: Iterable[TimedRun]) -> Iterator[tuple[Path, TimedRun]]:
    """Yield each run with the file that it is written to: from the second on, names have a number."""
    for number, run in enumerate(runs, 1):
        yield path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}"), run


def raise_fault(timing: Timing) -> None:
    """Raise the error that explains why the hardware stopped the run, if it did."""
    error = interleave(timing.program).error if timing.fault else None
    if error is not None:
        raise error
