"""Execution of a recorded program by the functional model: the values that instructions leave in memories."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vdla.explore.debug.contents import Contents
from vdla.explore.debug.recording import NONE, DebugError
from vdla.hw.spec.vocabulary import MemoryType
from vdla.sim.decoded import DecodedStream
from vdla.sim.interleave import interleave
from vdla.sim.records import ByteArray, IntArray
from vdla.sim.scratchpads import Scratchpads
from vdla.sim.verify.columns import DRAM

SLACK_BYTES = 1 << 20
"""Zeros behind DRAM, so that reads a little past its end find them."""


def executed_up_to(
    program: DecodedStream, pads: Scratchpads, dram: ByteArray, stops: Sequence[int]
) -> Iterator[int]:
    """Execute a program up to each of some instructions, and yield that instruction; then execute the rest.

    Args:
        pads: read and written.
        dram: uint8[bytes], read and written.
        stops: instructions; instructions that never execute are left out.
    """
    from vdla.sim.native.build import native_code_for  # takes long to import

    order, first = interleave(program).order, 0
    places = np.full(len(program), len(order))
    places[order] = np.arange(len(order))
    code = native_code_for(program.config)
    pads.clear_registers()
    for index in sorted(set(stops), key=lambda stop: int(places[stop])):
        if places[index] < len(order):
            code.run(program, order[first : places[index] + 1], pads, dram)
            first = int(places[index]) + 1
            yield index
    code.run(program, order[first:], pads, dram)


def with_slack(dram: ByteArray) -> ByteArray:
    """Return a copy of DRAM with zeros behind it."""
    return np.concatenate([dram, np.zeros(SLACK_BYTES, np.uint8)])


def values_of(contents: Contents, memory: int, place: int) -> Iterator[tuple[int, np.ndarray]]:
    """Yield each instruction that writes an element, and the values that it leaves there.

    Args:
        memory: the scratchpad as a MemoryType, or DRAM.
        place: element of the scratchpad, or byte of DRAM.

    Raises:
        DebugError: what DRAM held before the run is not known.
    """
    recording = contents.recording
    if not recording.image.complete:
        raise DebugError(
            f"the values of {recording.name} are not known, because it was timed without inputs; run it "
            "with inputs (--input)"
        )
    pads, dram = Scratchpads(recording.program.config), with_slack(recording.image.before)
    touches = contents.touches.at(memory, place)
    writers = touches.instruction[touches.writes].tolist()
    for index in executed_up_to(recording.program, pads, dram, writers):
        if index in writers:
            yield index, (dram[place : place + 1] if memory == DRAM else _element(pads, memory, place)).copy()


def _element(pads: Scratchpads, memory: int, place: int) -> np.ndarray:
    return _array(pads, memory)[place : place + 1]


def _array(pads: Scratchpads, memory: int) -> np.ndarray:
    """Return a scratchpad: one row for each element."""
    elements: np.ndarray = getattr(pads, MemoryType(memory).name.lower())
    return elements


@dataclass(frozen=True, eq=False)
class Written:
    """The values that the writes of a run leave behind, except in the micro-op memory.

    Attributes:
        first: int64[m], by touch: the place in `values` of its first value; NONE where there are none.
        values: int64[...], of each element of each row, in order.
        lanes: by memory, the values of an element.
    """

    first: IntArray
    values: IntArray
    lanes: Mapping[int, int]


def written_by(contents: Contents, most: int) -> Written:
    """Return what each write of a run leaves behind.

    Returns:
        Nothing if there are more than `most` values, if the data in DRAM are not known, or if the hardware
        stops the run.
    """
    touches, recording = contents.touches, contents.recording
    pads, first = Scratchpads(recording.program.config), np.full(len(touches), NONE, np.int64)
    lanes = {int(memory): _element(pads, memory, 0).size for memory in contents.scratchpads} | {DRAM: 1}
    writes = np.flatnonzero(touches.writes & (touches.memory != MemoryType.UOP))
    each = np.array([lanes[memory] for memory in touches.memory[writes].tolist()], np.int64)
    sizes = each * touches.width[writes] * touches.count[writes]
    if not recording.image.complete or recording.timing.fault or sizes.sum() > most:
        return Written(first, np.zeros(0, np.int64), lanes)
    first[writes] = np.cumsum(sizes) - sizes
    values, dram = np.zeros(int(sizes.sum()), np.int64), with_slack(recording.image.before)
    writers = np.unique(touches.instruction[writes]).tolist()
    for index in executed_up_to(recording.program, pads, dram, writers):
        for number in writes[touches.instruction[writes] == index].tolist():
            memory, places = int(touches.memory[number]), touches.places(number)
            left = (dram if memory == DRAM else _array(pads, memory))[places].reshape(-1)
            values[first[number] : first[number] + len(left)] = left
    return Written(first, values, lanes)
