"""Which LOADs are left out because their elements are on chip, and that a stream computes the same without them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.hw.spec import isa
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.hw.spec.vocabulary import Extension, MemoryType, Statistic
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.stream.builder import Loop, Rows, StreamBuilder
from vdla.runtime.stream.record import NO_TENSOR
from vdla.runtime.stream.repeats import without_repeats

INP, WGT, UOP = MemoryType.INP, MemoryType.WGT, MemoryType.UOP
MOMENTS = Statistic.MOMENTS
ROW = Rows(1, 4, 4)
NARROW = DEFAULT.with_changes(extensions=tuple(Extension))


def load(memory=INP, place=0, tensor="x", element=0, rows=ROW, halvings=0):
    return lambda builder: builder.load(memory, place, tensor, element, rows, halvings=halvings)


def store(tensor):
    return lambda builder: builder.store(0, tensor, 0, Rows(1, 1, 1))


def normalise(tensor):
    return lambda builder: builder.normalise(0, tensor, 0, Rows(1, 1, 1), statistic=MOMENTS, normal=1)


def gather_statistic(builder):
    builder.gather_statistics(0, Rows(1, 9, 9), statistic=MOMENTS, anew=True)


def normalise_into_inputs(builder):
    builder.record.transfer(isa.Normalise, (INP, 0, 3, 0, 1, 1, 1, 0, 1, MOMENTS, False), NO_TENSOR)


def gather(builder):
    builder.gather_elements(4, 3, "x", 0, Rows(1, 1, 0))


def feed_back(builder):
    builder.feed_back(0, 3, Rows(1, 1, 1))


def product(builder):
    builder.gemm(((0, 0, 0),), Loop(), Loop())


CASES = {
    "the same LOAD twice": ([load(), load()], [1]),
    "three times": ([load(), load(), load()], [1, 2]),
    "a part": ([load(), load(place=1, element=1, rows=Rows(1, 2, 2))], [1]),
    "more than a part": ([load(), load(rows=Rows(1, 5, 5))], []),
    "two LOADs as one": ([load(), load(place=4, element=4), load(rows=Rows(2, 4, 4))], [2]),
    "rows of another shape": ([load(rows=Rows(2, 2, 5)), load(rows=Rows(2, 2, 5)), load()], [1]),
    "weights": ([load(WGT), load(WGT)], [1]),
    "narrow weights": ([load(WGT, halvings=1), load(WGT, halvings=1)], [1]),
    "weights of other widths": ([load(WGT), load(WGT, halvings=1), load(WGT, halvings=2), load(WGT)], []),
    "inputs and weights": ([load(INP), load(WGT)], []),
    "another element": ([load(), load(element=1)], []),
    "another place": ([load(), load(place=4)], []),
    "another tensor": ([load(), load(tensor="y")], []),
    "other elements between": ([load(), load(place=3, tensor="y", rows=Rows(1, 1, 1)), load()], []),
    "elements behind it between": ([load(), load(place=4, tensor="y"), load()], [2]),
    "a STORE into the tensor between": ([load(), store("x"), load()], []),
    "a STORE into another tensor between": ([load(), store("y"), load()], [1]),
    "a LOAD after the tensor has changed, twice": ([load(), store("x"), load(), load()], [2]),
    "a GATHER between": ([load(), gather, load()], []),
    "a NORMALISE into the tensor between": ([load(), normalise("x"), load()], []),
    "a NORMALISE into another tensor between": ([load(), normalise("y"), load()], [1]),
    "a NORMALISE that gathers between": ([load(), gather_statistic, load()], [1]),
    "a NORMALISE into INP between": ([load(), normalise_into_inputs, load()], []),
    "a STORE into INP between": ([load(), feed_back, load()], []),
    "padding": ([load(rows=Rows(1, 3, 3, x_pads=(1, 0)))] * 2, []),
    "padding between": ([load(), load(rows=Rows(1, 3, 3, x_pads=(1, 0))), load()], []),
    "a product between": ([load(), product, load()], [2]),
}


@pytest.mark.parametrize("title", CASES)
def test_which_loads_are_left_out(title):
    """The expected numbers count LOADs of inputs, weights and micro-ops."""
    actions, expected = CASES[title]
    builder = StreamBuilder(NARROW)
    for action in actions:
        action(builder)
    edit = without_repeats(builder.record, NARROW)
    loads = builder.record.table(isa.Load)[0].tolist()
    assert [loads.index(number) for number in (edit.dropped if edit else ())] == expected


SIZE, PLACES = 8, 6  # elements of each tensor, and places on chip that programs use
TENSORS = {"x": INP, "w": WGT, "z": INP}
transfers = st.tuples(
    st.sampled_from([*TENSORS]), st.integers(0, PLACES), st.integers(0, SIZE - 2), st.integers(1, 2)
)
products = st.tuples(st.just("product"), st.integers(0, 3), st.integers(0, PLACES), st.integers(0, PLACES))
stores = st.tuples(st.just("store"), st.integers(0, 3), st.integers(0, SIZE - 1), st.just(1))
programs = st.lists(st.one_of(transfers, products, stores), max_size=30)


def recorded(steps: list[tuple]) -> StreamBuilder:
    """Record LOADs of x, w and z, products, and STOREs into z, which LOADs read again."""
    builder = StreamBuilder(TINY)
    for place in range(PLACES + 2):
        for tensor, memory in TENSORS.items():
            builder.load(memory, place, tensor, place % SIZE, Rows(1, 1, 1))
    builder.gemm(((0, 0, 0),), Loop(), Loop(4, dst=1), reset=True)
    for kind, first, second, third in steps:
        if kind == "product":
            builder.gemm(((first, second, third),), Loop(), Loop())
        elif kind == "store":
            builder.store(first, "z", second, Rows(1, third, third))
        else:
            builder.load(TENSORS[kind], first, kind, second, Rows(1, third, third))
    builder.store(0, "out", 0, Rows(1, 4, 4))
    return builder


def left_in_dram(builder: StreamBuilder) -> np.ndarray:
    """Return DRAM after a run of what was recorded, with random tensors."""
    stream = builder.finish()
    addresses = {name: 4096 * (1 + number) for number, name in enumerate(("x", "w", "z", "out", "micro-ops"))}
    device = FunctionalDevice(TINY, 1 << 17)
    device.copy_in(4096, np.random.default_rng(0).integers(0, 256, 3 * 4096, dtype=np.uint8))
    device.copy_in(addresses["micro-ops"], stream.uops.view(np.uint8))
    words = stream.relocated({name: addresses[name] for name in stream.tensors})
    device.copy_in(1 << 16, words.reshape(-1))
    device.run(1 << 16, stream.count)
    return device.copy_out(4096, 4 * 4096)


@given(programs)
@settings(max_examples=100)
def test_a_program_computes_the_same_without_repeated_loads(steps):
    builder = recorded(steps)
    edit = without_repeats(builder.record, TINY)
    if edit is not None:
        assert np.array_equal(left_in_dram(builder.edited(edit)), left_in_dram(recorded(steps)))


def test_most_random_programs_repeat_a_load():
    rng = np.random.default_rng(0)
    kinds = [*TENSORS]
    repeating = 0
    for _ in range(20):
        steps = [(kinds[rng.integers(3)], int(rng.integers(3)), int(rng.integers(3)), 1) for _ in range(20)]
        repeating += without_repeats(recorded(steps).record, TINY) is not None
    assert repeating >= 15
