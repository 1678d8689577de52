"""The matcher accepts what an intrinsic means, under other names and in other places, and says where anything else differs."""

import pytest

from vdla.compiler.codegen.intrinsics import accelerator
from vdla.compiler.ir.nodes import Scope
from vdla.compiler.ir.parse import parse_func
from vdla.compiler.ir.text import print_stmt
from vdla.compiler.te.tensorize import Intrinsic, MatchError
from vdla.hw.spec.presets import TINY

DOT = Intrinsic.declare("""\
def dot(acc: int32[2], left: int8[2, 4], right: int8[4]):
    for i in range(2):
        for k in range(4):
            acc[i] = acc[i] + int32(left[i, k]) * int32(right[k])
""", acc="accumulator")

HEAD = "def f(A: int8[6, 2, 4], B: int8[3, 4], P: int8[2, 2, 4]):\n    C = alloc(int32[5, 2], \"{}\")\n    for n in range(3):\n"


def nest(text: str, scope: str = "accumulator"):
    """Return the loop over n, and the scope of C."""
    body = "".join(f"        {line}\n" for line in text.splitlines())
    return parse_func(HEAD.format(scope) + body).body.body.body


ACCEPTED = {
    "as it is": "for y in range(2):\n    for x in range(4):\n        C[n, y] = C[n, y] + int32(A[n * 2, y, x]) * int32(B[n, x])",
    "loops in another order": "for x in range(4):\n    for y in range(2):\n        C[n, y] = C[n, y] + int32(A[n * 2, y, x]) * int32(B[n, x])",
    "operands exchanged": "for y in range(2):\n    for x in range(4):\n        C[n, y] = int32(B[n, x]) * int32(A[n * 2, y, x]) + C[n, y]",
    "a loop of one trip more": "for o in range(1):\n    for y in range(2):\n        for x in range(4):\n"
                               "            C[n, y] = C[n, y] + int32(A[n * 2, y + o, x]) * int32(B[n, x])",
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_the_same_meaning_is_found(name):
    call = DOT.replace(nest(ACCEPTED[name]))
    assert print_stmt(call).splitlines()[0] == "with dot(C[n, 0], A[n * 2, 0, 0], B[n, 0]):"


def test_conditions_around_the_tile_stay():
    text = "for y in range(2):\n    for x in range(4):\n        if n < 2:\n            C[n, y] = C[n, y] + int32(A[n * 2, y, x]) * int32(B[n, x])"
    assert print_stmt(DOT.replace(nest(text))).splitlines()[0] == "if n < 2:"


REFUSED = {
    "another operation": ("for y in range(2):\n    for x in range(4):\n        C[n, y] = C[n, y] - int32(A[n, y, x]) * int32(B[n, x])",
                          "it has acc[i] + int32(left[i, k]) * int32(right[k]) where these loops have C[n, i] - int32(A[n, i, k]) * int32(B[n, k])"),
    "other extents": ("for y in range(2):\n    for x in range(2):\n        C[n, y] = C[n, y] + int32(A[n, y, x]) * int32(B[n, x])",
                      "its loops have extents 2x4, these 2x2"),
    "a shifted subscript": ("for y in range(2):\n    for x in range(4):\n        C[n, y] = C[n, y] + int32(A[n, y, x]) * int32(B[n, 3 - x])",
                            "where these loops have int32(A[n, i, k]) * int32(B[n, 0 - k + 3])"),
    "a subscript outside that moves": ("for y in range(2):\n    for x in range(4):\n"
                                       "        C[n, y] = C[n, y] + int32(A[n + y, y, x]) * int32(B[n, x])",
                                       "where these loops have int32(A[n + i, i, k]) * int32(B[n, k])"),
    "a condition on the tile": ("for y in range(2):\n    for x in range(4):\n        if x < 3:\n"
                                "            C[n, y] = C[n, y] + int32(A[n, y, x]) * int32(B[n, x])",
                                "the condition x < 3 cuts the tile: its loops must divide"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_another_meaning_is_refused_where_it_differs(name):
    text, message = REFUSED[name]
    with pytest.raises(MatchError) as caught:
        DOT.replace(nest(text))
    assert message in str(caught.value)


def test_a_tile_in_another_memory_is_refused():
    with pytest.raises(MatchError, match="C lies in input, but acc must lie in accumulator"):
        DOT.replace(nest(ACCEPTED["as it is"], "input"))


def test_every_intrinsic_of_the_accelerator_means_itself():
    own = accelerator(TINY)
    every = [*own.gemm.intrinsics, *own.load_inp.intrinsics, own.load_wgt, *own.load_acc.intrinsics, own.load_parameters,
             *own.store.intrinsics, *own.alu.intrinsics]
    assert len({intrinsic.name for intrinsic in every}) == len(every)
    for intrinsic in every:
        assert set(intrinsic.scopes) <= {buffer.name for buffer in intrinsic.meaning.params}
        assert intrinsic.scopes.get("dst", Scope.DRAM) is not Scope.WEIGHT or intrinsic.name == "load_wgt"
