"""The flow of data through a run: from which instruction each instruction has what it reads.

The instructions are followed in the order of their starts, which is an order that their tokens allow.
Instructions that never start follow in the order of the stream: this is what they would read.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vdla.explore.debug.recording import NONE
from vdla.explore.debug.touches import Touches
from vdla.sim.records import BoolArray, IntArray
from vdla.sim.timing.result import NEVER
from vdla.sim.timing.state import FAR
from vdla.sim.verify.columns import DRAM


@dataclass(frozen=True, eq=False)
class Flow:
    """Pairs of instructions: the first reads what the second has written.

    Attributes:
        reader, writer: int64[m], ordered by reader; `writer` is NONE where the data stood there before the
            run.
        memory: int64[m], the scratchpad as a MemoryType, or DRAM.
    """

    reader: IntArray
    writer: IntArray
    memory: IntArray

    def sources(self, instruction: int) -> list[tuple[int, int]]:
        """Return what an instruction reads: memory, and the instruction that wrote there last."""
        first, end = np.searchsorted(self.reader, [instruction, instruction + 1])
        rows = slice(int(first), int(end))
        return list(zip(self.memory[rows].tolist(), self.writer[rows].tolist(), strict=True))

    def readers(self, instruction: int) -> list[tuple[int, int]]:
        """Return who reads what an instruction wrote: memory and instruction."""
        rows = self.writer == instruction
        return list(zip(self.memory[rows].tolist(), self.reader[rows].tolist(), strict=True))

    def origins(self, instruction: int) -> frozenset[int]:
        """Return every instruction on whose results in scratchpads an instruction depends."""
        met, waiting = {instruction}, [instruction]
        while waiting:
            for memory, writer in self.sources(waiting.pop()):
                if memory != DRAM and writer != NONE and writer not in met:
                    met.add(writer)
                    waiting.append(writer)
        return frozenset(met - {instruction})


def flow_of(touches: Touches, started: IntArray) -> Flow:
    """Return the flow of data of a run.

    Args:
        started: int64[n], the cycle in which each instruction starts, or NEVER.
    """
    firsts = np.searchsorted(touches.instruction, np.arange(len(started) + 1))
    order = np.argsort(np.where(started == NEVER, FAR, started), kind="stable").tolist()
    tables = {memory: new_writers(touches, memory) for memory in np.unique(touches.memory).tolist()}
    reads = np.array([row for index in order for row in _follow(touches, firsts, index, tables)], np.int64)
    rows = np.unique(reads.reshape(-1, 3), axis=0)
    return Flow(rows[:, 0], rows[:, 2], rows[:, 1])


MOST_PLACES = 1 << 26
"""Places of a memory, from the first that is written, of which the last writer is known."""


@dataclass(frozen=True, eq=False)
class Writers:
    """The instruction that wrote each place of a memory last: int32[k], for the places from `first` on."""

    first: int
    last: np.ndarray

    def at(self, places: IntArray) -> np.ndarray:
        """Return int32[...]: the writer of each place; NONE where no instruction wrote it."""
        writers = np.full(len(places), NONE, np.int32)
        inside = self._inside(places)
        writers[inside] = self.last[places[inside] - self.first]
        return writers

    def write(self, places: IntArray, instruction: int) -> None:
        """Note that an instruction wrote some places."""
        self.last[places[self._inside(places)] - self.first] = instruction

    def _inside(self, places: IntArray) -> BoolArray:
        inside: BoolArray = (places >= self.first) & (places < self.first + len(self.last))
        return inside


def new_writers(touches: Touches, memory: int) -> Writers:
    """Return the writers of a memory before anything is written."""
    writes = touches.chosen((touches.memory == memory) & touches.writes)
    first, end = (int(writes.begin.min()), int(writes.end.max())) if len(writes) else (0, 0)
    return Writers(first, np.full(min(end - first, MOST_PLACES), NONE, np.int32))


def _follow(
    touches: Touches, firsts: IntArray, index: int, tables: dict[int, Writers]
) -> Iterator[tuple[int, int, int]]:
    """Yield reader, memory and writer of what an instruction reads, and note what it writes."""
    for number in range(int(firsts[index]), int(firsts[index + 1])):
        memory, places = int(touches.memory[number]), touches.places(number)
        if touches.reads[number]:
            yield from ((index, memory, writer) for writer in _different(tables[memory].at(places)))
        if touches.writes[number]:
            tables[memory].write(places, index)


def _different(values: np.ndarray) -> list[int]:
    """Return the different values of an array, ascending; most arrays have a single value."""
    return [int(values[0])] if (values == values[0]).all() else np.unique(values).tolist()
