"""Sizes of operators against counts of what they read and make, one by one."""

from itertools import pairwise, product

import pytest

from vdla.compiler.ir.nodes import IrError
from vdla.compiler.te.operators.sizes import (
    Convolution,
    Grouping,
    Phases,
    Pooling,
    Transposed,
    average_pool,
    blocks,
    grouping,
    matrix_product,
    phases,
    phases_fault,
)
from vdla.hw.spec.presets import TINY

CURE = "give the network larger inputs: larger samples, or larger extents in --shape"


@pytest.mark.parametrize("block", [1, 3, 4])
def test_blocks_hold_all_channels_and_no_block_is_empty(block):
    for size in range(10):
        count = blocks(size, block)
        assert (count - 1) * block < size <= count * block


def places(extent: int, kernel: int, stride: int, before: int, behind: int, dilation: int) -> int:
    """Count the places where a window lies within its input with its border."""
    span = 1 + (kernel - 1) * dilation
    return sum(begin % stride == 0 for begin in range(before + extent + behind - span + 1))


CONVOLUTIONS = [
    Convolution(6, 9, 11, 4, (3, 2), (2, 3), (1, 0, 2, 3), (2, 3), groups=2, batch=3),
    Convolution(2, 5, 7, 3, (5, 7)),
    Convolution(2, 4, 5, 3, (5, 7), (3, 1), (1, 0, 0, 2)),
    Convolution(2, 8, 6, 3, (1, 1), (3, 2), (0, 2, 1, 0)),
    Convolution(4, 13, 4, 8, (3, 1), (1, 2), (0, 1, 1, 0), (5, 4), groups=4, batch=2),
]


@pytest.mark.parametrize("size", CONVOLUTIONS, ids=str)
def test_a_result_has_a_pixel_for_each_place_of_the_window(size):
    above, left, below, right = size.padding
    rows = places(size.height, size.kernel[0], size.stride[0], above, below, size.dilation[0])
    columns = places(size.width, size.kernel[1], size.stride[1], left, right, size.dilation[1])
    assert size.out_size == (rows, columns)
    taps = size.channels // size.groups * size.kernel[0] * size.kernel[1]
    assert size.macs == size.batch * size.outputs * rows * columns * taps
    if size.dilation == (1, 1):
        same = Pooling(2, size.height, size.width, size.kernel, size.stride, size.padding, size.batch)
        assert same.out_size == (rows, columns)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (Convolution(1, 9, 9, 1, (1, 1), (2, 1)), True),
        (Convolution(1, 9, 9, 1, (1, 3), (3, 1)), True),
        (Convolution(1, 9, 9, 1, (1, 1), (1, 2)), False),
        (Convolution(1, 9, 9, 1, (2, 1), (2, 1)), False),
        *((Convolution(1, 9, 9, 1, (1, 1), (2, 1), pads), False) for pads in ((1, 0, 0, 0), (0, 0, 0, 1))),
    ],
)
def test_rows_are_left_out_by_strides_alone(size, expected):
    assert size.skips_rows is expected


LARGER = "a window of {} x {} pixels is larger than its input of {} x {}, border included; " + CURE
UNEVEN = "convolution: {} groups divide {} channels and {} outputs unevenly"


def convolution(**changed: object) -> Convolution:
    """Return a convolution whose window takes all of its input and border."""
    usual = {"channels": 2, "height": 4, "width": 5, "outputs": 3, "kernel": (3, 8), "padding": (1, 2, 0, 1)}
    return Convolution(**usual | {"dilation": (2, 1)} | changed)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        *(
            ({name: 0}, "channels = {}, outputs = {}, groups = {} and batch = {} must each be at least 1".format(
                *({"channels": 2, "outputs": 3, "groups": 1, "batch": 1} | {name: 0}).values()))
            for name in ("channels", "outputs", "groups", "batch")
        ),
        ({"kernel": (0, 8)}, "kernel = (0, 8), stride = (1, 1) and dilation = (2, 1) must be at least 1"),
        ({"kernel": (3, 0)}, "kernel = (3, 0), stride = (1, 1) and dilation = (2, 1) must be at least 1"),
        ({"stride": (1, 0)}, "kernel = (3, 8), stride = (1, 0) and dilation = (2, 1) must be at least 1"),
        ({"dilation": (0, 1)}, "kernel = (3, 8), stride = (1, 1) and dilation = (0, 1) must be at least 1"),
        ({"height": 3}, LARGER.format(5, 8, 4, 8)),
        ({"width": 4}, LARGER.format(5, 8, 5, 7)),
        *(
            ({"padding": pads}, LARGER.format(5, 8, 4 + pads[0] + pads[2], 5 + pads[1] + pads[3]))
            for pads in ((0, 2, 0, 1), (1, 1, 0, 1), (1, 2, 0, 0))
        ),
        ({"groups": 2}, UNEVEN.format(2, 2, 3).removeprefix("convolution: ")),
        ({"groups": 3}, UNEVEN.format(3, 2, 3).removeprefix("convolution: ")),
    ],
)  # fmt: skip
def test_a_convolution_that_is_none_is_refused(changed, message):
    assert convolution().out_size == (1, 1)
    assert convolution(padding=(0, 1, 1, 2)).out_size == (1, 1)
    with pytest.raises(IrError) as error:
        convolution(**changed)
    assert str(error.value) == f"convolution: {message}"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"channels": 0}, "channels = 0 and batch = 1 must each be at least 1"),
        ({"batch": 0}, "channels = 2 and batch = 0 must each be at least 1"),
        ({"stride": (0, 1)}, "kernel = (3, 4), stride = (0, 1) and dilation = (1, 1) must be at least 1"),
        ({"padding": (0, 0, 0, 0)}, LARGER.format(3, 4, 3, 3)),
        ({"height": 2}, LARGER.format(3, 4, 2, 4)),
    ],
)
def test_a_pooling_that_is_none_is_refused(changed, message):
    usual = {"channels": 2, "height": 3, "width": 3, "kernel": (3, 4), "padding": (0, 1, 0, 0)}
    assert Pooling(**usual).out_size == (1, 1)
    with pytest.raises(IrError) as error:
        Pooling(**usual | changed)
    assert str(error.value) == f"pooling: {message}"


@pytest.mark.parametrize(("block_in", "block_out"), [(4, 4), (4, 8), (8, 2)])
def test_groups_are_joined_as_few_as_fill_blocks(block_in, block_out):
    """All of them where that takes more blocks than the channels do."""
    config = TINY.with_changes(block_in=block_in, block_out=block_out)
    seen = set()
    for groups, inputs, outputs in product((1, 2, 3, 4, 6, 8), (1, 2, 3, 4, 6), (1, 2, 3, 8)):
        size = Convolution(groups * inputs, 3, 3, groups * outputs, groups=groups)
        joined = next(
            count
            for count in range(1, 200)
            if count * inputs % block_in == 0 and count * outputs % block_out == 0
        )
        count = -(-groups // joined)
        dense = -(-groups * inputs // block_in), -(-groups * outputs // block_out)
        parts = joined * inputs // block_in, joined * outputs // block_out
        is_exact = (count * parts[0], count * parts[1]) == dense
        expected = Grouping(count, *parts, joined) if is_exact else Grouping(1, *dense, groups)
        assert grouping(size, config) == expected
        seen.add(is_exact)
    assert seen == {True, False}


def test_rows_of_a_matrix_are_pixels_of_images_in_a_batch():
    config = TINY.with_changes(batch=2)
    assert matrix_product(5, 7, 11, config) == Convolution(11, 3, 1, 7, (1, 1), batch=2)


def test_means_are_sums_of_each_channel():
    size = Pooling(6, 9, 8, (3, 2), (2, 1), (1, 0, 0, 1), 3)
    assert average_pool(size) == Convolution(6, 9, 8, 6, (3, 2), (2, 1), (1, 0, 0, 1), groups=6, batch=3)


def test_a_transposed_convolution_makes_what_its_kernels_reach():
    size = Transposed(3, 4, 6, 5, (3, 2), (2, 3), (1, 0, 0, 1), (1, 2), 2)
    reached = [
        1 + max(place * stride + tap for place in range(extent) for tap in range(taps))
        for extent, taps, stride in zip((4, 6), (3, 2), (2, 3), strict=True)
    ]
    assert size.out_size == (reached[0] - 1 - 0 + 1, reached[1] - 0 - 1 + 2)
    assert size.macs == 2 * 5 * 3 * 3 * 2 * 4 * 6


def summed(length: int, kernel: int, stride: int, pad: int, result: int) -> set[tuple[int, int, int]]:
    """Return each element of a result with an element of the input and of the kernel that it sums."""
    return {
        (place * stride + tap - pad, place, tap)
        for place in range(length)
        for tap in range(kernel)
        if 0 <= place * stride + tap - pad < result
    }


SIDES = list(product((4, 7), (1, 2, 3, 4, 5), (1, 2, 3, 4), (0, 1, 2, 3, 4), range(1, 13)))


def test_phases_sum_what_a_transposed_convolution_does():
    """Borders reach as far as the phases read, and not farther."""
    seen = 0
    for length, kernel, stride, pad, result in SIDES:
        if phases_fault(kernel, stride, pad, result):
            continue
        seen += 1
        side = phases(length, kernel, stride, pad, result)
        assert (side.stride, side.size * stride, side.taps) == (stride, result, -(-kernel // stride))
        reads = {
            (stride * y + phase, y + side.slope * phase - side.before + place, side.tap(phase, place, pad))
            for y, phase, place in product(range(side.size), range(stride), range(side.taps))
        }
        inside = {(written, read, tap) for written, read, tap in reads if 0 <= read < length and tap < kernel}
        assert inside == summed(length, kernel, stride, pad, result)
        assert -side.before == min(read for _, read, _ in reads)
        assert side.after == max(read for _, read, _ in reads) - (length - 1)
    assert seen > 100


def test_what_has_no_phases_of_one_form_says_why():
    """Phases start one after another at equal distances, and divide the result."""
    seen = set()
    for _, kernel, stride, pad, result in SIDES:
        starts = [(phase + pad) // stride for phase in range(stride)]
        steps = {later - start for start, later in pairwise(starts)}
        if result % stride or len(steps) > 1:
            fault = (
                f"a result of {result} with stride {stride} and padding {pad}, which has no uniform phases"
            )
        elif -(-kernel // stride) <= pad // stride:
            fault = f"padding {pad}, which cuts off whole elements of the input"
        else:
            fault = ""
        assert phases_fault(kernel, stride, pad, result) == fault
        seen.add(fault[:5])
        if fault:
            with pytest.raises(IrError) as error:
                phases(4, kernel, stride, pad, result)
            assert str(error.value) == f"transposed convolution: {fault}"
    assert len(seen) == 3


def test_phases_are_known_by_their_sides():
    assert phases(4, 3, 2, 1, 8) == Phases(stride=2, taps=2, slope=1, before=1, after=1, size=4)
