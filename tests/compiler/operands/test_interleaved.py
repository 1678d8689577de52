"""Planes that alternate in DRAM: every element of a transfer from its place, padding where it was."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from vdla.compiler.operands.interleaved import Interleaved, activation_block, uses_gathers
from vdla.compiler.tasks.convolution import ConvolutionTask, TransposedTask
from vdla.compiler.tasks.elementwise import Elements, ElementsTask
from vdla.compiler.tasks.pooling import PoolingTask
from vdla.compiler.te.operators.sizes import Convolution, Pooling, Transposed
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.vocabulary import Extension, MemoryType
from vdla.runtime.stream.builder import Rows

PAD = -1  # what stands on chip where there is padding
WITH = TINY.with_changes(extensions=tuple(Extension), block_in=4, block_out=8)
WITHOUT = WITH.with_changes(extensions=tuple(set(Extension) - {Extension.GATHER}))


@dataclass
class Chip:
    """A memory on chip whose elements hold the places from which transfers took them; stands for a stream
    builder, and records what transfers there are."""

    config: AcceleratorConfig
    held: dict[int, int] = field(default_factory=dict)
    kinds: list[str] = field(default_factory=list)

    def load(self, chip: int, tensor: str, element: int, rows: Rows) -> None:
        assert tensor == "X"
        self.kinds.append("LOAD")
        (above, below), (left, right) = rows.y_pads, rows.x_pads
        for y in range(-above, rows.height + below):
            for x in range(-left, rows.width + right):
                inside = 0 <= y < rows.height and 0 <= x < rows.width
                self.put(chip, element + y * rows.stride + x if inside else PAD)
                chip += 1

    def gather_elements(self, step: int, chip: int, tensor: str, begin: int, rows: Rows) -> None:
        assert tensor == "X"
        assert not any((*rows.y_pads, *rows.x_pads))
        self.kinds.append("GATHER")
        for y in range(rows.height):
            for x in range(rows.width):
                place, rest = divmod(begin + y * rows.stride + x * step, self.config.block_in)
                assert rest == 0
                self.put(chip, place)
                chip += 1

    def put(self, place: int, value: int) -> None:
        assert place not in self.held, "every element is written once"
        self.held[place] = value


def moved(config: AcceleratorConfig, memory: MemoryType, how: Interleaved, element: int, rows: Rows):
    chip = Chip(config)
    record = how.store(chip.load) if memory is MemoryType.OUT else how.load(memory, chip, chip.load)
    record(7, "X", element, rows)
    return chip


def places(how: Interleaved) -> np.ndarray:
    """Return the places of the elements of three images, by what stands where."""
    whole = -(-how.blocks // how.parts) * how.parts
    order = np.arange(3 * whole * how.pixels).reshape(3, whole // how.parts, how.pixels, how.parts)
    return order.transpose(0, 1, 3, 2).reshape(3, whole, how.pixels)[:, : how.blocks].reshape(-1)


def test_planes_of_a_block_alternate():
    assert [Interleaved(2, 3, 2).place(element) for element in range(6)] == [0, 2, 4, 1, 3, 5]
    for how in (Interleaved(2, 5, 3), Interleaved(4, 1, 6), Interleaved(4, 6, 4)):
        assert [how.place(element) for element in range(how.pixels * how.blocks * 3)] == places(how).tolist()


@pytest.mark.parametrize("config", [WITH, WITHOUT], ids=["gather", "no gather"])
@pytest.mark.parametrize("memory", [MemoryType.INP, MemoryType.OUT, MemoryType.ACC_8BIT])
def test_every_element_comes_from_its_place(config, memory):
    rng = np.random.default_rng(3)
    for _ in range(300):
        how = Interleaved(int(rng.choice([2, 4])), int(rng.integers(1, 30)), int(rng.integers(1, 6)))
        height, width = (int(extent) for extent in rng.integers(1, 9, 2))
        stride = int(rng.choice([width, width + 3, how.pixels, 1]))
        extent = (height - 1) * stride + width
        elements = places(how)
        if extent > len(elements):
            continue
        element = int(rng.integers(0, len(elements) - extent + 1))
        pads = [tuple(map(int, rng.integers(0, 3, 2) * int(rng.integers(0, 2)))) for _ in range(2)]
        chip = moved(config, memory, how, element, Rows(height, width, stride, *pads))
        rows = element + np.arange(height)[:, None] * stride + np.arange(width)
        expected = np.pad(elements[rows], pads, constant_values=PAD).reshape(-1)
        assert [chip.held[7 + place] for place in range(len(chip.held))] == expected.tolist()
        assert ("GATHER" in chip.kinds) == (memory is MemoryType.INP and config is WITH)


def test_whole_planes_take_one_transfer_each():
    for config in (WITH, WITHOUT):
        assert len(moved(config, MemoryType.INP, Interleaved(2, 12, 4), 0, Rows(4, 12, 12)).kinds) == 4
        assert len(moved(config, MemoryType.INP, Interleaved(2, 12, 4), 12, Rows(3, 4, 4)).kinds) == 1
    rows_of_a_plane = moved(WITH, MemoryType.INP, Interleaved(2, 24, 2), 1, Rows(4, 3, 6)).kinds
    assert rows_of_a_plane == ["GATHER"]


def test_nothing_but_padding_stays_that():
    chip = moved(WITH, MemoryType.INP, Interleaved(2, 12, 4), 0, Rows(0, 5, 5, (2, 1)))
    assert chip.held == dict.fromkeys(range(7, 22), PAD)


def test_columns_longer_than_a_field_are_divided():
    pixels = isa.LONGEST_ROW + 10
    rows = Rows(1, pixels, pixels, x_pads=(2, 1))
    chip = moved(WITHOUT, MemoryType.INP, Interleaved(2, pixels, 2), pixels, rows)
    assert len(chip.kinds) == 2
    assert list(chip.held.values()) == [PAD, PAD, *range(1, 2 * pixels, 2), PAD]


def test_wide_gaps_are_not_gathered():
    """A GATHER would read what lies between, for longer than LOADs of one element wait."""
    config = WITH.with_changes(block_in=16, block_out=64)
    assert moved(config, MemoryType.INP, Interleaved(4, 4, 4), 0, Rows(1, 4, 4)).kinds == ["LOAD"]


@pytest.mark.parametrize(
    ("changes", "parts", "does"),
    [
        ({"block_in": 16, "bus_bits": 64}, 2, True),  # four beats from element to element
        ({"block_in": 16, "bus_bits": 64}, 4, False),
        ({"block_in": 16, "bus_bits": 128}, 4, True),
        ({"block_in": 8, "bus_bits": 64}, 5, False),
        ({"extensions": WITHOUT.extensions}, 2, False),
    ],
)
def test_elements_four_beats_apart_are_gathered(changes, parts, does):
    config = WITH.with_changes(block_out=64, **changes)
    assert uses_gathers(parts, config) is does


def test_steps_that_a_field_does_not_hold_are_not_gathered():
    config = WITH.with_changes(block_in=32, block_out=64, bus_bits=512)
    most = isa.MOST_GATHER_STEP // 32
    assert (uses_gathers(most, config), uses_gathers(most + 1, config)) == (most <= 8, False)


def test_activations_stand_in_the_larger_blocks():
    assert activation_block(TINY.with_changes(block_in=2, block_out=8)) == 8
    assert activation_block(TINY.with_changes(block_in=8, block_out=2)) == 8
    assert activation_block(TINY.with_changes(batch=2, block_in=8, block_out=2)) == 2


def test_tasks_say_what_alternates():
    size = Convolution(24, 5, 6, 20, (3, 3))
    x, z = Interleaved(2, 30, 6), Interleaved(2, 12, 3)
    assert ConvolutionTask(size).address_maps(WITH) == {}
    assert ConvolutionTask(size, reads=2, writes=2).address_maps(WITH) == {"X": x, "Z": z}
    assert ConvolutionTask(size, reads=2).address_maps(WITH) == {"X": x}
    transposed = TransposedTask(Transposed(24, 5, 6, 20, (2, 2), (2, 2)), writes=2)
    assert transposed.address_maps(WITH) == {"Z": Interleaved(2, 120, 3)}
    pooling = PoolingTask(Pooling(24, 5, 6, (2, 3)), 2, 2)
    assert pooling.address_maps(WITH) == {"X": Interleaved(2, 30, 3), "Z": Interleaved(2, 16, 3)}
    assert ElementsTask(Elements.COPY, 8).address_maps(WITH) == {}
