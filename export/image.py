"""The DRAM of a module as two regions: the tensors, and the image of weights, micro-ops and streams.

Each region may be at any aligned bus address. The driver relocates the streams.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from vdla.hw.spec.encoding import WORD_BITS, field_of
from vdla.hw.spec.isa import Load
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.device import PAGE_BYTES
from vdla.runtime.devices.registry import device_of
from vdla.runtime.module.plan import Plan
from vdla.runtime.session.launch import Launch
from vdla.runtime.session.placement import PlacedPlan, place_plan

WORD_BYTES = WORD_BITS // 8


@dataclass(frozen=True)
class Region:
    """A part of DRAM.

    Attributes:
        base: the address for which the streams of the image are relocated.
        size: in bytes, a multiple of the alignment.
    """

    base: int
    size: int


@dataclass(frozen=True)
class PlacedStream:
    """A stream in the image.

    Attributes:
        offset: of its first byte in the image.
        count: of instructions.
        user_of: uint8[count], 0 for an instruction without a DRAM address, else 1 + its place in
            `Image.users`.
    """

    offset: int
    count: int
    user_of: np.ndarray


@dataclass(frozen=True)
class Image:
    """The DRAM of a module.

    Attributes:
        alignment: of the regions, in bytes.
        tensors, image: the regions.
        words: uint64[...], the contents of the image.
        places: offset of each tensor in the region of tensors.
        streams: by name.
        users: region (0: tensors, 1: image) and bytes of an element, for transfers that move together.
    """

    alignment: int
    tensors: Region
    image: Region
    words: np.ndarray
    places: Mapping[str, int]
    streams: Mapping[str, PlacedStream]
    users: tuple[tuple[int, int], ...]


def image_of(plan: Plan) -> Image:
    """Place a module, and verify its streams, as a run does.

    Raises:
        ModuleError: a stream reaches outside its tensors.
        VerificationError: a stream is unsafe.
        DeviceError: the bus does not reach all of the DRAM that the module needs.
    """
    device = device_of("functional", plan.target, plan.dram_bytes)
    placed = place_plan(device, plan)
    for launch in placed.launches.values():
        launch.verify(launch.program())
    alignment = max(PAGE_BYTES, *map(plan.config.element_bytes, MemoryType))
    tensors, image = _regions(plan, placed, alignment)
    users: list[tuple[int, int]] = []
    streams = {
        name: PlacedStream(
            launch.stream_address - image.base, launch.stream.count, _users(plan, launch, alignment, users)
        )
        for name, launch in placed.launches.items()
    }
    words = device.copy_out(image.base, image.size).view(np.uint64)
    places = {name: placed.tensors[name].address - tensors.base for name in plan.tensors}
    return Image(alignment, tensors, image, words, places, streams, tuple(users))


def _regions(plan: Plan, placed: PlacedPlan, alignment: int) -> tuple[Region, Region]:
    """Return the regions of the tensors and of the image; all tensors stand before the image."""
    starts = [placed.tensors[name].address for name in plan.weights]
    ends = [placed.tensors[name].end for name in plan.weights]
    for launch in placed.launches.values():
        starts += [launch.stream_address]
        ends += [launch.stream_address + launch.stream.words.nbytes]
        starts += [address for name, address in launch.addresses.items() if name not in placed.tensors]
    tensors = [placed.tensors[name] for name in plan.tensors]
    return (
        _region([each.address for each in tensors], [each.end for each in tensors], alignment),
        _region(starts, ends, alignment),
    )


def _region(starts: list[int], ends: list[int], alignment: int) -> Region:
    base = min(starts) // alignment * alignment
    return Region(base, -(-(max(ends) - base) // alignment) * alignment)


def _users(plan: Plan, launch: Launch, alignment: int, users: list[tuple[int, int]]) -> np.ndarray:
    """Return the transfers of a stream that move with each region, and add them to `users`.

    The stream is relocated to addresses that are `alignment` bytes higher for one region: the difference of
    the words tells which instructions move, and the bytes of their elements.
    """
    field = field_of(Load, "dram_base", plan.config)
    word, start = divmod(field.start, WORD_BITS)
    here = launch.stream.relocated(launch.addresses).view(np.uint64)
    user_of = np.zeros(len(here), np.uint8)
    for region in (0, 1):
        moved = {
            name: address + alignment * ((name not in plan.tensors) == bool(region))
            for name, address in launch.addresses.items()
        }
        steps = (launch.stream.relocated(moved).view(np.uint64) - here)[:, word] >> np.uint64(start)
        for step in np.unique(steps[steps > 0]).tolist():
            user = region, alignment // step
            if user not in users:
                users.append(user)
            user_of[steps == step] = 1 + users.index(user)
    return user_of
