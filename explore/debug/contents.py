"""What lies in each memory of a run at a cycle, and which instructions touch a place of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vdla.explore.debug.dram import NO_LAYER
from vdla.explore.debug.flow import Flow, flow_of, new_writers
from vdla.explore.debug.recording import NO_COUNTER, NONE, Recording
from vdla.explore.debug.touches import Touches, touches_of
from vdla.hw.spec.isa import Opcode
from vdla.hw.spec.memories import scratchpads_of
from vdla.hw.spec.vocabulary import MemoryType, Unit
from vdla.sim.records import IntArray
from vdla.sim.timing.result import NEVER
from vdla.sim.verify.columns import DRAM


@dataclass(frozen=True, slots=True)
class Held:
    """Neighbouring elements of a scratchpad whose contents have the same label.

    Attributes:
        begin, end: elements [begin, end).
        label: the tensor that was loaded, or the layer or the instruction that computed them.
        writers: the instructions that wrote them last, in order of the stream.
    """

    begin: int
    end: int
    label: str
    writers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TouchView:
    """A touch of a run.

    Attributes:
        memory: the scratchpad as a MemoryType, or DRAM.
        begin, width, stride, count: its rows, as in `Touches`.
        area: what stands there in DRAM; "" on chip and outside all areas.
    """

    instruction: int
    memory: int
    reads: bool
    writes: bool
    begin: int
    width: int
    stride: int
    count: int
    area: str

    @property
    def text(self) -> str:
        """The places, as in "16..31, each 64 of 4 rows": elements, or bytes of DRAM."""
        shown = (lambda place: f"{place:#x}") if self.memory == DRAM else str
        first = shown(self.begin) + (f"..{shown(self.begin + self.width - 1)}" if self.width > 1 else "")
        return first if self.count == 1 else f"{first}, {self.count} rows at a distance of {self.stride}"


@dataclass(frozen=True, slots=True)
class Issue:
    """The issue of an instruction's slots.

    Attributes:
        slots: of the instruction.
        lent: slots that the store unit took meanwhile to read accumulators, where these have one port.
        stores: the STOREs that were in progress meanwhile; empty where no slot was lent.
    """

    slots: int
    lent: int
    stores: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Contents:
    """The memories of a run."""

    recording: Recording

    @cached_property
    def touches(self) -> Touches:
        """What the instructions touch."""
        return touches_of(self.recording.program, self.recording.image)

    @cached_property
    def flow(self) -> Flow:
        """From which instruction each instruction has what it reads."""
        return flow_of(self.touches, self.recording.timing.started)

    @cached_property
    def scratchpads(self) -> tuple[MemoryType, ...]:
        """The scratchpads that the accelerator has."""
        return scratchpads_of(self.recording.program.config)

    @cached_property
    def areas(self) -> IntArray:
        """int64[m]: by touch, the index of its area in DRAM; NONE on chip and outside all areas.

        A layer reads what earlier layers have written, and writes its results and scratch tensors.
        """
        touches, layers = self.touches, self.recording.layer_numbers[self.touches.instruction]
        area_numbers = np.full(len(touches), NONE, np.int64)
        for number, area in enumerate(self.recording.image.areas):
            inside = (touches.memory == DRAM) & (touches.begin >= area.begin) & (touches.begin < area.end)
            stands = (layers > area.layer) | (touches.writes & (layers == area.layer))
            unassigned = (layers == area.layer) & (area_numbers == NONE)
            area_numbers[inside & (stands | unassigned | (area.layer == NO_LAYER))] = number
        return area_numbers

    @cached_property
    def labels(self) -> list[str]:
        """By instruction, what it brings into a scratchpad: the tensor that it loads, or what computes it."""
        loaded = self.touches.reads & (self.touches.memory == DRAM) & (self.areas != NONE)
        names = dict(zip(self.touches.instruction[loaded].tolist(), self.areas[loaded].tolist(), strict=True))
        areas, recording = self.recording.image.areas, self.recording
        return [
            areas[names[index]].name if index in names else recording.layer_of[index] or self._form(index)
            for index in range(len(recording))
        ]

    def _form(self, index: int) -> str:
        """Return what an instruction without a tensor and a layer is called."""
        opcode = int(self.recording.program.opcode[index])
        return Opcode(opcode).name if self.recording.program.valid[index] else "invalid"

    def issue(self, index: int) -> Issue | None:
        """Return the issue of an instruction's slots; None where it steps through nothing or never
        retires."""
        recording, timing = self.recording, self.recording.timing
        if recording.stepping.counter[index] == NO_COUNTER or timing.retired[index] == NEVER:
            return None
        lent, stores = int(recording.lent[index]), recording.queued[Unit.STORE]
        during = (timing.started[stores] < timing.retired[index]) & (timing.started[stores] != NEVER)
        during &= (timing.retired[stores] > timing.started[index]) | (timing.retired[stores] == NEVER)
        in_progress = tuple(stores[during].tolist()) if lent else ()
        return Issue(int(recording.timed["slots"][index]), lent, in_progress)

    def writers(self, memory: int, cycle: int) -> IntArray:
        """Return int32[depth]: the instruction that wrote each element of a scratchpad last, among the
        instructions that have retired at a cycle; NONE where there is none."""
        retired = self.recording.timing.retired[self.touches.instruction]
        writes = np.flatnonzero((self.touches.memory == memory) & self.touches.writes)
        writes = writes[(retired[writes] != NEVER) & (retired[writes] < cycle)]
        table = new_writers(self.touches, memory)
        for number in writes[np.argsort(retired[writes], kind="stable")].tolist():
            table.write(self.touches.places(number), int(self.touches.instruction[number]))
        return table.at(np.arange(self.recording.program.config.depth(MemoryType(memory))))

    def held(self, memory: int, cycle: int) -> tuple[Held, ...]:
        """Return what lies in a scratchpad at a cycle; elements that nothing has written are left out."""
        writers = self.writers(memory, cycle)
        labels = [self.labels[writer] if writer != NONE else "" for writer in writers.tolist()]
        begins = [0, *(place for place in range(1, len(labels)) if labels[place] != labels[place - 1])]
        ends = [*begins[1:], len(labels)]
        return tuple(
            Held(begin, end, labels[begin], tuple(np.unique(writers[begin:end]).tolist()))
            for begin, end in zip(begins, ends, strict=True)
            if labels[begin]
        )

    def touched(self, instruction: int) -> Iterator[TouchView]:
        """Yield the touches of an instruction."""
        first, end = np.searchsorted(self.touches.instruction, [instruction, instruction + 1])
        return self._views(range(int(first), int(end)))

    def history(self, memory: int, place: int) -> Iterator[TouchView]:
        """Yield the touches of an element of a scratchpad or of a byte of DRAM, in the order of the stream.

        Args:
            memory: the scratchpad as a MemoryType, or DRAM.
        """
        touching = (self.touches.memory == memory) & self.touches.holds(place)
        return self._views(np.flatnonzero(touching).tolist())

    def _views(self, numbers: Sequence[int]) -> Iterator[TouchView]:
        touches, areas = self.touches, self.recording.image.areas
        for number in numbers:
            area = int(self.areas[number])
            yield TouchView(
                int(touches.instruction[number]),
                int(touches.memory[number]),
                bool(touches.reads[number]),
                bool(touches.writes[number]),
                int(touches.begin[number]),
                int(touches.width[number]),
                int(touches.stride[number]),
                int(touches.count[number]),
                areas[area].name if area != NONE else "",
            )
