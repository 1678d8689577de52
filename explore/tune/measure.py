"""Measuring one trial: lower a choice for a task, prove its stream safe, simulate it; and a bound of all."""

import time
from dataclasses import dataclass

import numpy as np

from vdla.compiler.codegen.choice_cache import cached
from vdla.compiler.codegen.choose import cycles_of, stream_of
from vdla.compiler.codegen.space import space_of
from vdla.compiler.codegen.tuned.record import OK
from vdla.compiler.rules import Unfit
from vdla.compiler.tasks.base import Choice, Task
from vdla.hw.spec.errors import VdlaError
from vdla.hw.spec.footprint import forms_in_dram
from vdla.hw.spec.target import Target
from vdla.runtime.session.launch import Tensor, check_tensors
from vdla.runtime.stream.builder import UOP_TENSOR, Stream
from vdla.sim.decoded import DecodedStream, decode_stream
from vdla.sim.events import events_of
from vdla.sim.rows import dram_rows
from vdla.sim.verify.verifier import verify

ALIGNMENT = 4096  # of tensors in DRAM, so that no two share a page
APART = 1 << 40  # bytes from one tensor to the next, so that rows of several are told apart


@dataclass(frozen=True, slots=True)
class Trial:
    """A choice that is to be measured.

    Attributes:
        number: of the trial in its tuning.
        place: of the choice in its space.
    """

    number: int
    task: Task
    place: int
    choice: Choice


@dataclass(frozen=True, slots=True)
class Start:
    """A task whose default choice is to be measured.

    Attributes:
        number: of the task.
        choice, cycles: the default choice and its cycles, where they are known; else None.
    """

    number: int
    task: Task
    choice: Choice | None = None
    cycles: int | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """What a trial measured.

    Attributes:
        number: of the trial.
        cycles: of the task alone; None where the choice is illegal.
        status: OK, or why it is illegal.
        lowering, verification, simulation: seconds that the parts took; 0 where they were not reached.
    """

    number: int
    cycles: int | None
    status: str = OK
    lowering: float = 0.0
    verification: float = 0.0
    simulation: float = 0.0

    @property
    def seconds(self) -> float:
        """What the whole trial took."""
        return self.lowering + self.verification + self.simulation


@dataclass(frozen=True, slots=True)
class Started:
    """The default choice of a task.

    Attributes:
        number: of the task.
        choice: None where the workers died.
        bound: cycles below which no choice gets; 0 where the choice is None or illegal.
    """

    number: int
    choice: Choice | None
    measured: Measured
    bound: int = 0


@dataclass(frozen=True)
class Measuring:
    """What workers do with every trial and every task; see `vdla.explore.workers.job.Job`.

    Attributes:
        target: on which the tasks run.
    """

    target: Target

    def measure(self, thing: Trial | Start) -> Measured | Started:
        """Measure a trial, or the default choice of a task. Whatever is wrong with it is its status."""
        return self.started(thing) if isinstance(thing, Start) else self.measured(thing)

    def started(self, start: Start) -> Started:
        """Measure the default choice of a task."""
        choice, measured = start.choice, Measured(start.number, start.cycles)
        if choice is None:
            space = space_of(start.task, self.target)
            assert not isinstance(space, Unfit), "an operator without choices stays on the host"
            choice = cached()(space)
            measured = self.measured(Trial(start.number, start.task, 0, choice))
        if measured.cycles is None:
            return Started(start.number, choice, measured)
        stream = stream_of(start.task, choice, self.target.config)
        return Started(start.number, choice, measured, lower_bound(stream, self.target))

    def measured(self, trial: Trial) -> Measured:
        """Measure a trial."""
        times = [time.perf_counter()]
        status, cycles = OK, None
        try:
            stream = stream_of(trial.task, trial.choice, self.target.config)
            times.append(time.perf_counter())
            verify_alone(stream)
            times.append(time.perf_counter())
            cycles = cycles_of(stream, self.target.memory)
        except (VdlaError, MemoryError) as error:
            status = _one_line(error)
        except Exception as error:  # a fault of the kit at one choice must not end the search
            status = f"internal error: {_one_line(error)}"
        times.append(time.perf_counter())
        return Measured(trial.number, cycles, status, *np.diff(times).tolist())

    def failed(self, thing: Trial | Start, reason: str) -> Measured | Started:
        """Return the result of a trial or a task whose workers died."""
        measured = Measured(thing.number, None, reason)
        return Started(thing.number, None, measured) if isinstance(thing, Start) else measured


def verify_alone(stream: Stream) -> None:
    """Verify a stream whose tensors stand apart in DRAM, as a session does before it runs a stream.

    Raises:
        ProgramError: it is not safe.
    """
    tensors = _placed(stream)
    encoded = stream.relocated({name: tensor.address for name, tensor in tensors.items()})
    program = decode_stream(encoded, stream.config)
    check_tensors(program, stream.tensors, tensors)
    end = max((tensor.end for tensor in tensors.values()), default=0)
    address = -(-end // ALIGNMENT) * ALIGNMENT
    dram = np.zeros(address + encoded.nbytes, np.uint8)
    uops = tensors[UOP_TENSOR].address
    dram[uops : uops + stream.uops.nbytes] = stream.uops.view(np.uint8)
    dram[address:] = encoded.reshape(-1)
    verify(program, dram, stream_address=address)


def _placed(stream: Stream) -> dict[str, Tensor]:
    """Return each tensor of a stream with its place and its size: as far as the stream reaches."""
    program = decode_stream(stream.relocated(dict.fromkeys(stream.tensors, 0)), stream.config)
    sizes = {name: _reach(program, positions) for name, positions in stream.tensors.items()}
    sizes[UOP_TENSOR] = stream.uops.nbytes
    placed, address = {}, 0
    for name, size in sizes.items():
        placed[name] = Tensor(address, size, writable=name != UOP_TENSOR)
        address += -(-size // ALIGNMENT) * ALIGNMENT
    return placed


def _reach(program: DecodedStream, positions: np.ndarray) -> int:
    """Return the bytes of a tensor at address 0 that the instructions in some positions reach."""
    selected = np.zeros(len(program), bool)
    selected[positions] = True
    ends = [0]
    for form in forms_in_dram():
        rows = dram_rows(program, form)
        ends += rows.end[selected[rows.index]].tolist()
    return max(ends)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def lower_bound(stream: Stream, target: Target) -> int:
    """Return the cycles below which no choice for a task gets.

    The array multiplies so many numbers in a cycle, and the bus moves so many bytes: each byte of the task's
    tensors at least once. What depends on the choice, as instructions and micro-ops do, is left out.

    Args:
        stream: of the task alone, for any choice.
    """
    program = decode_stream(stream.relocated(dict.fromkeys(stream.tensors, 0)), stream.config)
    steps = -(-int(events_of(program).products.sum()) // stream.config.macs_per_cycle)
    tensors = [positions for name, positions in stream.tensors.items() if name != UOP_TENSOR]
    beginnings = np.full(len(program), -1)
    for number, positions in enumerate(tensors):
        beginnings[positions] = number * APART
    begins, ends = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for form in forms_in_dram():
        rows = dram_rows(program, form)
        for places, begin, end in rows.merged().listed():
            first = beginnings[rows.index[places]]
            begins.append((first + begin)[first >= 0])
            ends.append((first + end)[first >= 0])
    moved = bytes_of(np.concatenate(begins), np.concatenate(ends))
    return max(steps, int(np.ceil(moved / target.bytes_per_cycle)), 1)


def bytes_of(begins: np.ndarray, ends: np.ndarray) -> int:
    """Return how many bytes lie in some intervals: int64[n] begins and ends, in any order."""
    order = np.argsort(begins, kind="stable")
    begins, reached = begins[order], np.maximum.accumulate(ends[order])
    before = np.concatenate([begins[:1], reached[:-1]])
    return int(np.maximum(reached - np.maximum(begins, before), 0).sum())
