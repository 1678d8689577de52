"""Texts of loop programs read back as what they say."""

from vdla.compiler.ir.nodes import Scope
from vdla.compiler.ir.text import print_calls
from vdla.compiler.tasks.program_text import (
    REQUANTISATION,
    SCALED,
    ChipBuffer,
    ConstantOperand,
    operand_type,
    parse_program,
    summed,
    threaded,
    where,
)
from vdla.hw.spec.presets import TINY

LOADED_AHEAD = """\
def main(P: int32[1, 4, 1, 4], W: int8[3, 4, 4], X: int8[6, 2, 1, 4], Z: int8[6, 2, 1, 4]):
    PL = alloc(int32[1, 4, 1, 4], "parameters")
    for k in range(1):
        for row in range(4):
            load_parameters(PL[k, row, 0, 0], P[k, row, 0, 0])
    WL = alloc(int8[3, 4, 4], "weight")
    for k in range(3):
        load_wgt(WL[k, 0, 0], W[k, 0, 0])
    for t in range(3):
        for thread in vthread(2):
            XL = alloc(int8[2, 1, 4], "input")
            for e in range(2):
                load_inp(XL[e, 0, 0], X[t * 2 + thread, e, 0, 0])
            S = alloc(int32[2, 1, 4], "accumulator")
            for e in range(2):
                reset(S[e, 0, 0])
            for e in range(2):
                gemm(S[e, 0, 0], XL[e, 0, 0], WL[2, 0, 0])
            for e in range(2):
                store_scaled(Z[t * 2 + thread, e, 0, 0], S[e, 0, 0], PL[0, 0, 0, 0])
"""


def test_a_program_reads_back():
    """Constants are loaded ahead of the tiles; a loop called `thread` becomes virtual threads."""
    image = ChipBuffer("XL", Scope.INPUT, {"e": 2}, TINY)
    sums = ChipBuffer("S", Scope.ACCUMULATOR, {"e": 2}, TINY)
    body = (
        image.loaded("X[t * 2 + thread, e, 0, 0]"),
        sums.zeros(),
        sums.each(f"gemm({sums.element}, {image.element}, WL[2, 0, 0])"),
        sums.each(f"store_scaled(Z[t * 2 + thread, e, 0, 0], {sums.element}, {SCALED})"),
    )
    image_type = operand_type(TINY, 6, 2)
    func = parse_program(
        {"X": image_type, "Z": image_type},
        [threaded({"t": 3, "thread": 2}, body)],
        TINY,
        [REQUANTISATION, ConstantOperand("W", Scope.WEIGHT, 3)],
    )
    assert print_calls(func) == LOADED_AHEAD


def test_statements_stand_under_their_condition():
    assert where("u < 3", "reset(S[u])\nreset(T[u])") == "if u < 3:\n    reset(S[u])\n    reset(T[u])"
    assert where("", "reset(S[u])") == "reset(S[u])"


def test_the_first_part_of_a_sum_begins_it():
    assert list(summed("part", {"e": 2}, "S[e]", "product")) == [
        "if part < 1:\n    for e in range(2):\n        reset(S[e])\n    product",
        "if 1 <= part:\n    product",
    ]
