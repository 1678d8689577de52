"""A launch and the cycle simulator's records of it, as columns that a binary search answers from."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vdla.explore.debug.dram import NO_IMAGE, Image
from vdla.hw.spec.assembly import format_instruction
from vdla.hw.spec.errors import VdlaError
from vdla.hw.spec.footprint import FOOTPRINTS, stepping_forms
from vdla.hw.spec.memory import REFERENCE_MEMORY, MemoryParameters
from vdla.hw.spec.sdram import AnyMemory
from vdla.hw.spec.showing import short
from vdla.hw.spec.timing import retire_stage
from vdla.hw.spec.units import TOKEN_EDGES, Unit
from vdla.sim.decoded import DecodedStream
from vdla.sim.records import BoolArray, IntArray, RecordArray
from vdla.sim.timing.columns import timing_columns
from vdla.sim.timing.result import NEVER, Timing
from vdla.sim.timing.steps import StepRows, step_rows
from vdla.sim.trace.layers import TracedLayer, layer_names

NONE = -1
"""The index that stands for no instruction, no burst and no layer."""
STEP_COUNTERS = tuple(dict.fromkeys(FOOTPRINTS[form].counter for form in stepping_forms()))
NO_COUNTER = len(STEP_COUNTERS)


class DebugError(VdlaError):
    """The debugger was asked for a cycle, an instruction or a command that does not exist, or for
    a memory that it does not explain."""


def explained_memory(memory: AnyMemory) -> MemoryParameters:
    """Return the memory of a run that the debugger explains.

    Raises:
        DebugError: it is an SDRAM.
    """
    if not isinstance(memory, MemoryParameters):
        raise DebugError(
            "the target's memory is an SDRAM, and the debugger explains waits for the reference memory only; "
            "choose the reference memory with --latency"
        )
    return memory


@dataclass(frozen=True, eq=False)
class Stepping:
    """The steps of each instruction of a stream.

    Attributes:
        counter: int64[n], the place in STEP_COUNTERS of the counter that counts them; NO_COUNTER where the
            instruction steps through nothing.
        steps: int64[n].
        rows: the slots that issue them.
    """

    counter: IntArray
    steps: IntArray
    rows: StepRows


@dataclass(frozen=True, eq=False)
class Recording:
    """A launch that was simulated with a log.

    Attributes:
        name: of the vector, or of the launch.
        timing: with its log.
        memory: that the launch ran with.
        layers: of a network's launch, in order; empty for a vector.
        image: DRAM of the launch.
    """

    name: str
    timing: Timing
    memory: MemoryParameters = REFERENCE_MEMORY
    layers: tuple[TracedLayer, ...] = ()
    image: Image = NO_IMAGE

    def __post_init__(self) -> None:
        assert self.timing.logged is not None

    @property
    def program(self) -> DecodedStream:
        """The stream that ran."""
        return self.timing.program

    def __len__(self) -> int:
        """Return the number of instructions."""
        return len(self.timing.program)

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Places in the queue of each unit."""
        config = self.program.config
        return config.load_queue_depth, config.compute_queue_depth, config.store_queue_depth

    @cached_property
    def queued(self) -> tuple[IntArray, ...]:
        """By unit: int64[...], the instructions that dispatch passes to it, in order."""
        units = self.program.unit[: self.program.dispatched]
        return tuple(np.flatnonzero(units == unit) for unit in Unit)

    @cached_property
    def timed(self) -> RecordArray:
        """INSTRUCTION[n]: what the cycle simulator reads of each instruction."""
        return timing_columns(self.program)

    @cached_property
    def lent(self) -> IntArray:
        """int64[n]: by instruction, the slots that the store unit took while the instruction issued its
        slots; 0 of instructions without steps, and of instructions that never retire."""
        timing = self.timing
        stage = retire_stage(self.program.config.operand_stages)
        lent = timing.retired - timing.started - stage - self.timed["slots"]
        steps = self.stepping.counter != NO_COUNTER
        slots: IntArray = np.where(steps & (timing.retired != NEVER), lent, 0)
        return slots

    @cached_property
    def stepping(self) -> Stepping:
        """The steps of each instruction."""
        count, program = len(self), self.program
        counter, steps = np.full(count, NO_COUNTER), np.zeros(count, np.int64)
        rows = StepRows(*(np.ones(count, np.int64) for _ in StepRows._fields))
        for form in stepping_forms():
            of_form = program.opcode == form.opcode
            counter[of_form] = STEP_COUNTERS.index(FOOTPRINTS[form].counter)
            steps[of_form] = program.steps(form)
            for column, values in zip(rows, step_rows(program, form, steps[of_form]), strict=True):
                column[of_form] = values
        return Stepping(counter, steps, rows)

    @cached_property
    def lent_runs(self) -> RecordArray:
        """LENT_RUN[m]: the cycles in which an instruction lends its slot to the store unit, in order."""
        return self.timing.logged.lent_runs

    @cached_property
    def tracks(self) -> tuple["Track", ...]:
        """The sequences of instructions that start and retire in order: the instructions of each unit, in the
        compute unit LOADs and steps apart."""
        return tuple(Track(unit, loads, instructions) for unit, loads, instructions in self._tracks())

    def _tracks(self) -> Iterator[tuple[Unit, bool, IntArray]]:
        for unit in Unit:
            queue, transfers = self.queued[unit], self.timed["transfers"][self.queued[unit]]
            if unit is Unit.COMPUTE:
                yield unit, False, queue[~transfers]
            yield unit, unit is not Unit.STORE, queue[transfers] if unit is Unit.COMPUTE else queue

    @cached_property
    def states(self) -> tuple[RecordArray, ...]:
        """By unit: SPAN[...], its spans in order; they cover the cycles from 1 to the last."""
        spans = self.timing.logged.spans
        return tuple(spans[spans["unit"] == unit] for unit in Unit)

    @cached_property
    def bursts(self) -> RecordArray:
        """BURST[m], in the order in which memory serves them."""
        return self.timing.logged.bursts

    @cached_property
    def beat_runs(self) -> RecordArray:
        """BEAT_RUN[m]: the cycles in which the counters of beats count, in order within a counter."""
        return self.timing.logged.beat_runs

    @cached_property
    def layer_of(self) -> list[str]:
        """The name of the layer of each instruction; "" where it belongs to none."""
        return layer_names(self.layers, len(self))

    @cached_property
    def layer_numbers(self) -> IntArray:
        """int64[n]: the index of the layer of each instruction; NONE where it belongs to none."""
        numbers = np.full(len(self), NONE, np.int64)
        for number, layer in enumerate(self.layers):
            numbers[layer.instructions] = number
        return numbers

    @cached_property
    def texts(self) -> list[str]:
        """The assembly of each instruction; of a bit pattern that is none, the reason."""
        return [self._text(index) for index in range(len(self))]

    def _text(self, index: int) -> str:
        if not self.program.valid[index]:
            return f"invalid: {self.program.word(index):#x}"
        return format_instruction(self.program.instruction(index))

    def check_instruction(self, index: int) -> int:
        """Return the number of an instruction.

        Raises:
            DebugError: the stream has no such instruction.
        """
        if not 0 <= index < len(self):
            raise DebugError(
                f"instruction {index} is outside the stream, whose instructions are 0 to {len(self) - 1}; "
                "choose one of these"
            )
        return index

    def matches(self, pattern: str) -> IntArray:
        """Return int64[...]: the instructions whose assembly, or whose layer, matches a regular expression.

        Raises:
            DebugError: the pattern is no regular expression.
        """
        try:
            searched = re.compile(pattern)
        except re.error as error:
            raise DebugError(
                f"the pattern {short(pattern)} is no regular expression of Python ({error}); put \\ before "
                "the characters that stand for themselves"
            ) from error
        texts = zip(self.texts, self.layer_of, strict=True)
        return np.array([index for index, pair in enumerate(texts) if any(map(searched.search, pair))], int)

    def happened(self, times: IntArray, which: IntArray) -> IntArray:
        """Return int64[...]: the cycles of `times` of the instructions `which`, without times that never
        came; they ascend within a unit for starts, and within a track for retirements."""
        cycles: IntArray = times[which[times[which] != NEVER]]
        return cycles

    def edge_users(self, edge: int) -> tuple[IntArray, IntArray]:
        """Return the instructions that push onto an edge of TOKEN_EDGES, and the instructions that pop from
        it, in order; instructions that never run count, too."""
        assert edge < len(TOKEN_EDGES)
        program, reached = self.program, slice(self.program.dispatched)
        pushing: BoolArray = program.pushes[reached, edge]
        return np.flatnonzero(pushing), np.flatnonzero(program.pops[reached, edge])


@dataclass(frozen=True, eq=False)
class Track:
    """Instructions of a unit that start and retire in order.

    Attributes:
        loads: whether a load engine executes them.
        instructions: int64[...].
    """

    unit: Unit
    loads: bool
    instructions: IntArray

    def before(self, count: int, distance: int = 1) -> IntArray:
        """Return int64[count]: of each of the track's instructions, the instruction `distance` places before
        it; NONE for others, and where there is none."""
        preceding = np.full(count, NONE, np.int64)
        if len(self.instructions) > distance:
            preceding[self.instructions[distance:]] = self.instructions[:-distance]
        return preceding

    def latest(self, count: int) -> IntArray:
        """Return int64[count]: for each instruction of the stream, the track's last instruction before it;
        NONE where there is none."""
        place = np.searchsorted(self.instructions, np.arange(count)) - 1
        return (
            np.where(place >= 0, self.instructions[np.maximum(place, 0)], NONE)
            if len(self.instructions)
            else np.full(count, NONE, np.int64)
        )
