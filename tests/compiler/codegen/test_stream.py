"""Compiled convolutions are exact on every device, whatever the units' interleaving; what cannot be compiled
says why."""

import numpy as np
import pytest
from generators.making import Case
from generators.operators import random_case

from tests.loading import load_file
from vdla.compiler.codegen import stream
from vdla.compiler.codegen.choose import simulated_cycles
from vdla.compiler.codegen.estimate import ranked_tiles
from vdla.compiler.codegen.hardware_loops import (
    Dimension,
    Steps,
    compute_instructions,
    transfer_instructions,
)
from vdla.compiler.codegen.intrinsics import accelerator
from vdla.compiler.codegen.stream import compile_stream, lower_to_calls
from vdla.compiler.codegen.tiles import INPUTS, KEEPS, Tiles, TilingProblem
from vdla.compiler.ir.nodes import Func, IrError
from vdla.compiler.ir.parse import parse_func
from vdla.compiler.ir.text import print_calls, print_func
from vdla.compiler.operands.address_map import Transfer
from vdla.compiler.tasks.base import Choice
from vdla.compiler.tasks.convolution import ConvolutionTask, schedule_conv2d
from vdla.compiler.tasks.pooling import PoolingTask
from vdla.compiler.te.operators.convolution import conv2d
from vdla.compiler.te.operators.narrowing import Scale, Shift
from vdla.compiler.te.operators.sizes import Convolution, Grouping, Pooling, grouping
from vdla.compiler.te.schedule import create_schedule
from vdla.hw.spec import isa
from vdla.hw.spec.presets import TINY, VTA
from vdla.hw.spec.target import Target
from vdla.runtime.stream.builder import Rows

SIZE = Convolution(8, 6, 6, 8, padding=(1, 1, 1, 1))
SHIFT = Shift(4)


@pytest.fixture(scope="module")
def campaign():
    return load_file("scripts/random_operators.py")


@pytest.mark.parametrize("seed", range(80))
def test_random_operators_are_exact(campaign, seed):
    assert campaign.failures(random_case(seed, campaign.CONFIGS), on_rtl=False) == []


@pytest.mark.parametrize("seed", [0, 2, 7])
def test_the_rtl_agrees_in_data_and_cycles(campaign, seed):
    assert campaign.failures(random_case(seed, (TINY,)), on_rtl=True) == []


@pytest.mark.parametrize("seed", range(40))
def test_every_pass_leaves_a_program_that_verifies_and_whose_text_reads_back(campaign, seed):
    case = random_case(seed, campaign.CONFIGS)
    intrinsics = accelerator(case.config).every
    for func in (case.func, lower_to_calls(case.func, case.config, verify_each=True)):
        assert print_func(parse_func(print_func(func), intrinsics)) == print_func(func)
        assert print_calls(parse_func(print_calls(func), intrinsics)) == print_calls(func)


@pytest.mark.parametrize(
    ("verify_each", "more"), [({}, 0), ({"verify_each": False}, 0), ({"verify_each": True}, 1)]
)
def test_the_program_is_verified_once_and_after_each_pass_only_if_asked_for(verify_each, more, monkeypatch):
    verified: list[Func] = []
    monkeypatch.setattr(stream, "verify", verified.append)
    func = PoolingTask(Pooling(4, 4, 4, (2, 2), (2, 2))).program(Choice(1), TINY)
    assert lower_to_calls(func, TINY, **verify_each) is verified[-1]
    assert len(verified) == 1 + more * len(stream.pipeline(TINY))


SAME = """\
def f(X: int8[1, 1, 4], W: int8[1, 4, 4], Z: int8[1, 1, 2, 3, 1, 4]):
    WL = alloc(int8[1, 4, 4], "weight")
    for w in range(1):
        load_wgt(WL[w, 0, 0], W[w, 0, 0])
    XL = alloc(int8[2, 3, 1, 4], "input")
    S = alloc(int32[2, 3, 1, 4], "accumulator")
    for a in range(2):
        for b in range(3):
            load_inp(XL[a, b, 0, 0], X[0, 0, 0])
    for a in range(2):
        for b in range(3):
            reset(S[a, b, 0, 0])
    for a in range(2):
        for b in range(3):
            gemm(S[a, b, 0, 0], XL[a, b, 0, 0], WL[0, 0, 0])
    for a in range(2):
        for b in range(3):
            store(Z[0, 0, a, b, 0, 0], S[a, b, 0, 0])
"""


def test_an_element_of_dram_is_loaded_to_several_places(campaign):
    func = parse_func(SAME, accelerator(TINY).every)
    x = np.array([3, -5, 127, -128], np.int8)
    given = {"X": x[None, None], "W": np.eye(4, dtype=np.int8)[None]}
    case = Case("same", TINY, func, given, np.tile(x[None, :, None, None], (1, 1, 2, 3)))
    assert campaign.failures(case, on_rtl=False) == []


def test_an_intrinsic_of_somebody_else_is_no_instruction():
    func = parse_func(
        "@intrinsic\ndef mine(dst: int8[1, 4]):\n    for j in range(4):\n        dst[0, j] = int8(0)\n\n"
        "def f(A: int8[3, 1, 4]):\n    for i in range(3):\n        mine(A[i, 0, 0])\n"
    )
    with pytest.raises(
        IrError,
        match=r"^mine is not an instruction of the accelerator; it has gemm, reset, gemm_from, load_inp, "
        r"load_inp_padded, ",
    ):
        compile_stream(func, TINY)


def test_fused_loops_around_an_instruction_are_refused():
    func = parse_func(
        'def f(A: int8[2, 3, 1, 4]):\n    L = alloc(int8[6, 1, 4], "input")\n    for i in range(6):\n'
        "        load_inp(L[i, 0, 0], A[i // 3, i % 3, 0, 0])\n",
        accelerator(TINY).every,
    )
    with pytest.raises(
        IrError,
        match=r"^i // 3 is not affine, so no instruction can follow it; do not fuse loops "
        r"around an intrinsic$",
    ):
        compile_stream(func, TINY)


def test_virtual_threads_hide_latency():
    size = Convolution(32, 16, 16, 32, padding=(1, 1, 1, 1))
    works = [TilingProblem(size, TINY, threads, scales=True) for threads in (1, 2)]
    single, double = (
        min(
            simulated_cycles(ConvolutionTask(size), Choice(work.threads, tiles), Target(TINY))
            for tiles in ranked_tiles(work, 8, distinct=True)
        )
        for work in works
    )
    assert double < 0.97 * single


def scheduled(size=SIZE, config=TINY, narrowing=SHIFT, **options):
    return schedule_conv2d(conv2d(size, config, narrowing), size, config, **options).lower()


def test_a_stream_compiles_to_the_same_words_twice():
    np.testing.assert_array_equal(*(compile_stream(scheduled(), TINY).words for _ in range(2)))


def test_tiles_that_do_not_fit_are_named():
    small = TINY.with_changes(acc_buffer_bytes=512)
    with pytest.raises(
        IrError,
        match=r"buffer Y of 72 elements does not fit the accumulator memory: it holds 32, and 0 are taken; "
        "use smaller tiles or fewer virtual threads",
    ):
        compile_stream(scheduled(threads=1, tiles=Tiles(2, 6, 6, 2)), small)


def test_accumulators_stand_behind_the_parameters():
    with pytest.raises(
        IrError,
        match=r"buffer Y of 72 elements does not fit the accumulator memory: it holds 64, and 8 are taken",
    ):
        compile_stream(
            scheduled(narrowing=Scale(), threads=1, tiles=Tiles(2, 6, 6, 2)),
            TINY.with_changes(acc_buffer_bytes=1024),
        )


def test_parameters_of_more_channels_than_there_are_sets_are_loaded_in_turn(campaign):
    size = Convolution(4, 3, 3, 300, (1, 1))
    assert not TilingProblem(size, TINY, 2, scales=True).keeps_parameters
    stream = compile_stream(scheduled(size, narrowing=Scale()), TINY)
    assert len(stream.tensors["P"]) > 1


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("kept", KEEPS)
def test_parameters_of_several_tiles_are_loaded_at_once(kept, rows):
    """64 sets, of which 31 fit: the sets of four tiles of two threads with two blocks each."""
    size, tiles = Convolution(4, 3, 3, 256, (1, 1)), Tiles(2, rows, 3, 1, kept)
    stream = compile_stream(scheduled(size, narrowing=Scale(), threads=2, tiles=tiles), TINY)
    tiles_of_pixels = 3 // rows if kept == INPUTS else 1
    assert len(stream.tensors["P"]) == 4 * tiles_of_pixels


def test_no_tiles_at_all_is_said():
    with pytest.raises(
        IrError, match=r"no tile of .* fits the memories of tiny 64 times; use fewer virtual threads"
    ):
        ranked_tiles(TilingProblem(SIZE, TINY, 64, scales=True))


def test_a_statement_without_an_intrinsic_is_shown():
    with pytest.raises(IrError, match="no intrinsic has been put in place of\n"):
        compile_stream(create_schedule(conv2d(SIZE, TINY, SHIFT).out).lower(), TINY)


def test_requantisation_by_parameters_needs_its_extension():
    with pytest.raises(
        IrError,
        match="requantisation by parameters needs the extension requantise, which vta has switched off; "
        "switch it on, or narrow by a Shift",
    ):
        scheduled(config=VTA, narrowing=Scale())


def test_a_window_that_does_not_fit_is_named():
    size = Pooling(4, 40, 40, (30, 30))
    with pytest.raises(
        IrError,
        match=r"a window of \(30, 30\) does not fit the scratchpads of tiny 2 times; use fewer virtual threads",
    ):
        PoolingTask(size).program(Choice(2), TINY)


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        (1, Grouping(1, 4, 8, 1)),
        (2, Grouping(2, 2, 4, 1)),
        (4, Grouping(4, 1, 2, 1)),
        (8, Grouping(4, 1, 2, 2)),
        (16, Grouping(4, 1, 2, 4)),
    ],
)
def test_groups_are_joined_until_they_fill_blocks(groups, expected):
    assert grouping(Convolution(16, 4, 4, 32, groups=groups), TINY) == expected


def test_the_last_joined_groups_may_be_filled_up():
    assert grouping(Convolution(10, 4, 4, 10, groups=10), TINY) == Grouping(3, 1, 1, 4)
    assert grouping(Convolution(15, 4, 4, 15, groups=5), TINY) == Grouping(1, 4, 4, 5)


# Mapping to hardware loops and rows


def test_the_longest_loops_become_hardware_loops_and_the_rest_micro_ops():
    loops = [Steps(3, (0, 1, 1)), Steps(14, (1, 1, 0)), Steps(2, (200, 0, 18)), Steps(10, (14, 16, 0))]
    (instruction,) = compute_instructions(tuple(loops), (5, 7, 9), TINY)
    assert (instruction.outer.trips, instruction.inner.trips, len(instruction.uops)) == (14, 10, 6)
    assert sorted(instruction.uops)[0] == (5, 7, 9)


@pytest.mark.parametrize("seed", range(30))
def test_compute_instructions_take_every_step_once(seed):
    rng = np.random.default_rng(seed)
    loops = [
        Steps(int(rng.integers(1, 6)), tuple(int(step) for step in rng.integers(0, 5, 3)))
        for _ in range(rng.integers(1, 6))
    ]
    base = tuple(int(place) for place in rng.integers(0, 9, 3))
    walked = [
        tuple(uop[which] + i * outer[which] + j * inner[which] for which in range(3))
        for instruction in compute_instructions(tuple(loops), base, TINY)
        for outer, inner in [
            (
                (instruction.outer.dst, instruction.outer.src, instruction.outer.wgt),
                (instruction.inner.dst, instruction.inner.src, instruction.inner.wgt),
            )
        ]
        for i in range(instruction.outer.trips)
        for j in range(instruction.inner.trips)
        for uop in instruction.uops
    ]
    expected = [base]
    for loop in loops:
        expected = [
            tuple(start + count * step for start, step in zip(place, loop.steps, strict=True))
            for place in expected
            for count in range(loop.trips)
        ]
    assert sorted(walked) == sorted(expected)


@pytest.mark.parametrize(("rows", "instructions"), [(isa.LONGEST_ROW, 1), (isa.LONGEST_ROW + 1, 2)])
def test_a_transfer_has_as_many_rows_as_its_field_holds(rows, instructions):
    dimensions = [Dimension(rows, 1, 2, 0, rows)]
    moved = list(transfer_instructions(dimensions, 0, 0))
    assert len(moved) == instructions
    assert moved[0].rows.height == rows // instructions


def test_a_transfer_of_more_elements_than_a_row_holds_is_one_of_several_rows():
    """Deep scratchpads hold tiles of which a whole is one piece of DRAM."""
    dimensions = [Dimension(512, 1024, 1024, 0, 512), Dimension(1024, 1, 1, 0, 1024)]
    (moved,) = transfer_instructions(dimensions, 3, 7)
    assert moved == Transfer(3, 7, Rows(16, 32768, 32768))


@pytest.mark.parametrize("seed", range(60))
def test_transfer_instructions_move_every_element_to_its_place(seed):
    rng = np.random.default_rng(seed)
    trips = [int(count) for count in rng.integers(1, 40 if seed % 3 == 0 else 6, 3)]
    low = [int(rng.integers(0, count)) for count in trips]
    high = [int(rng.integers(start + 1, count + 1)) for start, count in zip(low, trips, strict=True)]
    dram = (900, 40 * int(rng.integers(1, 3)), 1)
    chip = (trips[1] * trips[2], trips[2], 1)
    dimensions = [Dimension(*row) for row in zip(trips, chip, dram, low, high, strict=True)]
    moved = {}
    for part in transfer_instructions(dimensions, 10, 5000):
        rows, place = part.rows, part.chip
        width = rows.x_pads[0] + rows.width + rows.x_pads[1]
        for y in range(rows.y_pads[0] + rows.height + rows.y_pads[1]):
            for x in range(width):
                inside = 0 <= y - rows.y_pads[0] < rows.height and 0 <= x - rows.x_pads[0] < rows.width
                assert place not in moved
                moved[place] = (
                    part.dram + (y - rows.y_pads[0]) * rows.stride + x - rows.x_pads[0] if inside else None
                )
                place += 1
    expected = {
        10 + int(np.dot(at, chip)): 5000 + int(np.dot(at, dram))
        if all(a <= b < c for a, b, c in zip(low, at, high, strict=True))
        else None
        for at in np.ndindex(*trips)
    }
    assert moved == expected


def test_a_nest_is_mapped_once_for_each_value_of_the_variables_that_it_depends_on(monkeypatch):
    from vdla.compiler.codegen import transfers

    size, mapped = Convolution(32, 16, 16, 32, padding=(1, 1, 1, 1)), []
    find = transfers.transfer_instructions
    monkeypatch.setattr(
        transfers,
        "transfer_instructions",
        lambda dimensions, *rest, **options: mapped.append(dimensions) or find(dimensions, *rest, **options),
    )
    tiles = Tiles(outputs=1, rows=4, columns=16, inputs=1)
    words = compile_stream(scheduled(size, threads=1, tiles=tiles), TINY)
    loads = np.count_nonzero(words.words[:, 0] & np.uint64(7) == np.uint64(0))
    rows_of_tiles, nests = 4, 4  # inputs, weights and outputs, with what is left of the last iteration
    assert 0 < len(mapped) <= rows_of_tiles * nests < loads


SUMS_OF_PRODUCTS = """\
def f(A: int8[3, 12, 1, 4], W: int8[12, 4, 4], Z: int8[1, 3, 1, 4]):
    WL = alloc(int8[12, 4, 4], "weight")
    for k in range(12):
        load_wgt(WL[k, 0, 0], W[k, 0, 0])
    AL = alloc(int8[3, 12, 1, 4], "input")
    for e in range(3):
        for k in range(12):
            load_inp(AL[e, k, 0, 0], A[e, k, 0, 0])
    S = alloc(int32[3, 1, 4], "accumulator")
    for e in range(3):
        for k in range(12):
            gemm_from(S[e, 0, 0], AL[e, k, 0, 0], WL[k, 0, 0], k < 1)
    for e in range(3):
        store(Z[0, e, 0, 0], S[e, 0, 0])
"""


@pytest.mark.parametrize("uop_bytes", [64, 128, 2048])
def test_sums_start_anew_however_few_micro_operations_fit(campaign, uop_bytes):
    """With few, accumulators are reset before the products; without, the first product overwrites them."""
    config = TINY.with_changes(uop_buffer_bytes=uop_bytes)
    rng = np.random.default_rng(2)
    given = {"A": rng.integers(-9, 9, (3, 12, 1, 4), np.int8), "W": rng.integers(-9, 9, (12, 4, 4), np.int8)}
    sums = np.einsum("koi,ekbi->eo", given["W"].astype(np.int64), given["A"].astype(np.int64))
    expected = sums.T.reshape(1, 4, 1, 3).astype(np.int8)
    func = parse_func(SUMS_OF_PRODUCTS, accelerator(config).every)
    assert campaign.failures(Case("sums", config, func, given, expected), on_rtl=False) == []
