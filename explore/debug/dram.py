"""DRAM of a launch: what stands where, what it held before the run, and what differs afterwards."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from vdla.runtime.module.plan import Crossing, LaunchStep, Plan
from vdla.runtime.session.launch import Launch
from vdla.runtime.stream.builder import UOP_TENSOR
from vdla.runtime.vectors import Vector, stream_address
from vdla.sim.records import ByteArray

NO_LAYER = -1
STREAM = "stream"


@dataclass(frozen=True, slots=True)
class Area:
    """A named range of DRAM.

    Attributes:
        begin, end: bytes [begin, end).
        layer: index of the layer that writes it; NO_LAYER: it stands there from the begin of the run.
    """

    name: str
    begin: int
    end: int
    layer: int = NO_LAYER


@dataclass(frozen=True, slots=True)
class Difference:
    """Bytes of DRAM that differ from the expected result, all written by the same STORE.

    Attributes:
        store: the STORE that wrote them last; -1 where no instruction wrote them.
        address: of the first.
        count: how many bytes differ.
        actual, expected: the values of the first.
        pairs: how many different pairs of value and expected value there are among them.
        suspects: LOADs on which the STORE depends, and no STORE of right bytes of the same comparison; empty
            where there is no such STORE.
        subject: what was compared with what; empty: the run with its expected results.
    """

    store: int
    address: int
    count: int
    actual: int
    expected: int
    pairs: int
    suspects: tuple[int, ...] = ()
    subject: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """A device's remark about a run.

    Attributes:
        instruction: that it names; -1 where it names none.
        stops: the device stopped the run, and `text` says why.
    """

    text: str
    instruction: int = -1
    stops: bool = False


@dataclass(frozen=True, eq=False)
class Image:
    """DRAM of a launch.

    Attributes:
        before: uint8[bytes], its contents before the run, at least where the run loads micro-ops; zeros
            follow.
        areas: named ranges. Of two that overlap, the area whose layer is later holds from that layer on.
        differences: from a comparison with other results; the first to be written first.
        notes: remarks of devices about this run.
        complete: `before` holds all data that the run reads.
    """

    before: ByteArray
    areas: tuple[Area, ...] = ()
    differences: tuple[Difference, ...] = ()
    notes: tuple[Note, ...] = ()
    complete: bool = False


NO_IMAGE = Image(np.zeros(0, np.uint8))
"""DRAM full of zeros."""


def vector_image(vector: Vector) -> Image:
    """Return DRAM of a vector before its run: its segments and its stream."""
    address = stream_address(vector)
    before = np.zeros(address + vector.stream.size, np.uint8)
    areas = []
    for segment in vector.segments:
        before[segment.address : segment.address + segment.initial.size] = segment.initial
        areas.append(Area(f"segment {segment.address:#x}", segment.address, segment.end))
    before[address:] = vector.stream.reshape(-1)
    return Image(before, (*areas, Area(STREAM, address, len(before))), complete=True)


def launch_image(plan: Plan, step: LaunchStep, launch: Launch) -> Image:
    """Return DRAM of a launch of a module: weights, micro-ops, the values that the host packs, and the result
    and the scratch tensors of each layer."""
    at, size = launch.addresses, launch.stream.uops.nbytes
    areas = [Area(UOP_TENSOR, at[UOP_TENSOR], at[UOP_TENSOR] + size)]
    areas += [
        Area(name, at[name], at[name] + values.nbytes) for name, values in plan.weights.items() if name in at
    ]
    areas += [_area(crossing, at[crossing.tensor]) for crossing in step.packs if crossing.tensor in at]
    for number, layer in enumerate(step.layers):
        scratch = [name for name in layer.scratch if name in at]
        areas += [Area(name, at[name], at[name] + plan.tensors[name], number) for name in scratch]
        if layer.result is not None and layer.result.tensor in at:
            areas.append(_area(layer.result, at[layer.result.tensor], number))
    stream = launch.stream_address
    areas.append(Area(STREAM, stream, stream + launch.stream.words.nbytes))
    return Image(launch.device.copy_out(0, launch.device.dram_bytes), tuple(areas))


def _area(crossing: Crossing, address: int, layer: int = NO_LAYER) -> Area:
    begin = address + crossing.begin
    return Area(crossing.value, begin, begin + crossing.layout.size, layer)


def names_at(areas: Iterable[Area], address: int) -> tuple[str, ...]:
    """Return the names of the areas that hold a byte of DRAM at some time."""
    return tuple(dict.fromkeys(area.name for area in areas if area.begin <= address < area.end))
