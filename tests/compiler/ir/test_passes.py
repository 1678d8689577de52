"""Each pass as text before and after, and meaning kept."""

import numpy as np
import pytest

from vdla.compiler.ir.interpret import interpret
from vdla.compiler.ir.nodes import Scope
from vdla.compiler.ir.parse import parse_func, parse_intrinsic
from vdla.compiler.ir.passes import InPlace, InterleaveVirtualThreads, StartSums
from vdla.compiler.ir.text import print_calls
from vdla.compiler.ir.verify import verify

PARAMS = {
    "load_acc": ("dst: int32[1, 2] @ accumulator, src: int32[1, 2]", "src[0, j]"),
    "load_inp": ("dst: int8[1, 2] @ input, src: int8[1, 2]", "src[0, j]"),
    "shr_imm": (
        "dst: int32[1, 2] @ accumulator, left: int32[1, 2] @ accumulator, imm: int32[1]",
        "left[0, j] >> imm[0]",
    ),
    "add": (
        "dst: int32[1, 2] @ accumulator, left: int32[1, 2] @ accumulator, right: int32[1, 2] @ accumulator",
        "left[0, j] + right[0, j]",
    ),
    "work": ("dst: int32[1, 2] @ accumulator, src: int8[1, 2] @ input", "dst[0, j] + int32(src[0, j])"),
    "store": ("dst: int8[1, 2], src: int32[1, 2] @ accumulator", "int8(src[0, j])"),
}
SUMMED = "acc[0, 0] = acc[0, 0] + int32(inp[0, k]) * int32(wgt[0, k])"
PRODUCT = "acc: int32[1, 1] @ accumulator, inp: int8[1, 2], wgt: int8[1, 2]"
RESET = parse_intrinsic("def reset(acc: int32[1, 1] @ accumulator):\n    acc[0, 0] = int32(0)\n")
GEMM = parse_intrinsic(f"def gemm({PRODUCT}):\n    for k in range(2):\n        {SUMMED}\n")
GEMM_FROM = parse_intrinsic(
    f"def gemm_from({PRODUCT}, first: bool[1]):\n    if first[0]:\n        acc[0, 0] = int32(0)\n"
    f"    for k in range(2):\n        {SUMMED}\n"
)
INTRINSICS = (
    RESET,
    GEMM,
    GEMM_FROM,
    *(
        parse_intrinsic(f"def {name}({params}):\n    for j in range(2):\n        dst[0, j] = {value}\n")
        for name, (params, value) in PARAMS.items()
    ),
)

PASSES = {
    "element-wise results take their operand's place": (
        InPlace(),
        """\
def f(A: int32[4, 1, 2], C: int8[4, 1, 2]):
    X = alloc(int32[4, 1, 2], "accumulator")
    for i in range(4):
        load_acc(X[i, 0, 0], A[i, 0, 0])
    for o in range(2):
        Y = alloc(int32[2, 1, 2], "accumulator")
        for k in range(2):
            shr_imm(Y[k, 0, 0], X[o * 2 + k, 0, 0], int32(1))
        for k in range(2):
            store(C[o * 2 + k, 0, 0], Y[k, 0, 0])
""",
        """\
def f(A: int32[4, 1, 2], C: int8[4, 1, 2]):
    X = alloc(int32[4, 1, 2], "accumulator")
    for i in range(4):
        load_acc(X[i, 0, 0], A[i, 0, 0])
    for o in range(2):
        for k in range(2):
            shr_imm(X[k + o * 2, 0, 0], X[o * 2 + k, 0, 0], int32(1))
        for k in range(2):
            store(C[o * 2 + k, 0, 0], X[k + o * 2, 0, 0])
""",
    ),
    "an operand that something else reads keeps its place": (
        InPlace(),
        """\
def f(A: int32[4, 1, 2], C: int8[4, 1, 2]):
    X = alloc(int32[4, 1, 2], "accumulator")
    for i in range(4):
        load_acc(X[i, 0, 0], A[i, 0, 0])
    Y = alloc(int32[4, 1, 2], "accumulator")
    for i in range(4):
        shr_imm(Y[i, 0, 0], X[i, 0, 0], int32(1))
    for i in range(4):
        add(Y[i, 0, 0], Y[i, 0, 0], X[i, 0, 0])
    for i in range(4):
        store(C[i, 0, 0], Y[i, 0, 0])
""",
        None,
    ),
    "sums start with their first product": (
        StartSums(((GEMM, GEMM_FROM),), RESET),
        """\
def f(A: int8[3, 1, 2], B: int8[3, 1, 2], C: int32[4, 1, 1]):
    S = alloc(int32[4, 1, 1], "accumulator")
    for i in range(4):
        reset(S[i, 0, 0])
    for k in range(3):
        for i in range(4):
            gemm(S[i, 0, 0], A[k, 0, 0], B[k, 0, 0])
    for i in range(4):
        C[i, 0, 0] = S[i, 0, 0]
""",
        """\
def f(A: int8[3, 1, 2], B: int8[3, 1, 2], C: int32[4, 1, 1]):
    S = alloc(int32[4, 1, 1], "accumulator")
    for k in range(3):
        for i in range(4):
            gemm_from(S[i, 0, 0], A[k, 0, 0], B[k, 0, 0], k < 1)
    for i in range(4):
        C[i, 0, 0] = S[i, 0, 0]
""",
    ),
    "calls that do not touch the sums may stand beside their products": (
        StartSums(((GEMM, GEMM_FROM),), RESET),
        """\
def f(A: int8[3, 1, 2], B: int8[3, 1, 2], D: int32[3, 1, 2], C: int32[4, 1, 1]):
    S = alloc(int32[4, 1, 1], "accumulator")
    for i in range(4):
        reset(S[i, 0, 0])
    for k in range(3):
        T = alloc(int32[1, 1, 2], "accumulator")
        load_acc(T[0, 0, 0], D[k, 0, 0])
        for i in range(4):
            gemm(S[i, 0, 0], A[k, 0, 0], B[k, 0, 0])
    for i in range(4):
        C[i, 0, 0] = S[i, 0, 0]
""",
        """\
def f(A: int8[3, 1, 2], B: int8[3, 1, 2], D: int32[3, 1, 2], C: int32[4, 1, 1]):
    S = alloc(int32[4, 1, 1], "accumulator")
    for k in range(3):
        T = alloc(int32[1, 1, 2], "accumulator")
        load_acc(T[0, 0, 0], D[k, 0, 0])
        for i in range(4):
            gemm_from(S[i, 0, 0], A[k, 0, 0], B[k, 0, 0], k < 1)
    for i in range(4):
        C[i, 0, 0] = S[i, 0, 0]
""",
    ),
    "sums whose products do not walk all of them are reset": (
        StartSums(((GEMM, GEMM_FROM),), RESET),
        """\
def f(A: int8[3, 1, 2], B: int8[3, 1, 2], C: int32[4, 1, 1]):
    S = alloc(int32[4, 1, 1], "accumulator")
    for i in range(4):
        reset(S[i, 0, 0])
    for k in range(3):
        for i in range(3):
            gemm(S[i, 0, 0], A[k, 0, 0], B[k, 0, 0])
    for i in range(4):
        C[i, 0, 0] = S[i, 0, 0]
""",
        None,
    ),
    "virtual threads are interleaved, each with buffers of its own": (
        InterleaveVirtualThreads(),
        """\
def f(A: int8[3, 4, 1, 2], C: int8[4, 1, 2]):
    for v in vthread(2):
        S = alloc(int32[2, 1, 2], "accumulator")
        for k in range(3):
            L = alloc(int8[2, 1, 2], "input")
            for i in range(2):
                load_inp(L[i, 0, 0], A[k, v * 2 + i, 0, 0])
            for i in range(2):
                work(S[i, 0, 0], L[i, 0, 0])
        for i in range(2):
            store(C[v * 2 + i, 0, 0], S[i, 0, 0])
""",
        """\
def f(A: int8[3, 4, 1, 2], C: int8[4, 1, 2]):
    S = alloc(int32[2, 2, 1, 2], "accumulator")
    for k in range(2):
        L = alloc(int8[2, 2, 1, 2], "input")
        for v in vthread(2):
            for i in range(2):
                load_inp(L[v, i, 0, 0], A[k, v * 2 + i, 0, 0])
        for v in vthread(2):
            for i in range(2):
                work(S[v, i, 0, 0], L[v, i, 0, 0])
    L = alloc(int8[2, 2, 1, 2], "input")
    for v in vthread(2):
        for i in range(2):
            load_inp(L[v, i, 0, 0], A[2, v * 2 + i, 0, 0])
    for v in vthread(2):
        for i in range(2):
            work(S[v, i, 0, 0], L[v, i, 0, 0])
        for i in range(2):
            store(C[v * 2 + i, 0, 0], S[v, i, 0, 0])
""",
    ),
}


def run(func):
    rng = np.random.default_rng(3)
    arrays = {
        buffer.name: rng.integers(-100, 100, buffer.shape).astype(buffer.dtype) for buffer in func.params
    }
    interpret(func, arrays)
    return arrays["C"]


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_changes_the_text_as_shown_and_not_the_meaning(name):
    item, before, after = PASSES[name]
    func = parse_func(before, INTRINSICS)
    verify(func)
    changed = item.run(func)
    verify(changed)
    assert print_calls(changed) == (after or before)
    np.testing.assert_array_equal(run(changed), run(func))


IN_PLACE = """\
def f(A: int32[4, 1, 2], C: int8[4, 1, 2]):
    X = alloc(int32[4, 1, 2], "accumulator")
    for i in range(4):
        load_acc(X[i, 0, 0], A[i, 0, 0])
    Y = alloc(int32[4, 1, 2], "accumulator")
    for i in range(4):
        shr_imm(Y[i, 0, 0], X[i, 0, 0], int32(1))
    for i in range(4):
        store(C[i, 0, 0], Y[i, 0, 0])
"""
TURNED = IN_PLACE.replace("X[i, 0, 0], int32(1)", "X[3 - i, 0, 0], int32(1)")
WRITTEN_TWICE = IN_PLACE.replace("int32(1))\n", "int32(1))\n    shr_imm(Y[2, 0, 0], Y[1, 0, 0], int32(2))\n")
OF_OTHER_RANK = IN_PLACE.replace("X = alloc(int32[4, ", "X = alloc(int32[1, 4, ").replace("X[i", "X[0, i")
PRODUCTS = """\
def f(A: int8[3, 1, 2], B: int8[3, 1, 2], D: int32[3, 1, 2], C: int32[4, 1, 1]):
    S = alloc(int32[4, 1, 1], "accumulator")
    for i in range(4):
        reset(S[i, 0, 0])
    for k in range(3):
        for i in range(4):
            gemm(S[i, 0, 0], A[k, 0, 0], B[k, 0, 0])
    for i in range(4):
        C[i, 0, 0] = S[i, 0, 0]
"""
UNDER_A_CONDITION = PRODUCTS.replace("            gemm(", "            if i < 3:\n                gemm(")
BETWEEN = PRODUCTS.replace("    for k in range(3):\n", "    reset(S[1, 0, 0])\n    for k in range(3):\n")
UNDER_THE_SAME = UNDER_A_CONDITION.replace("        reset(", "        if i < 3:\n            reset(")
TWO_PRODUCTS = PRODUCTS.replace(
    "            gemm(S[i, 0, 0], A[k, 0, 0], B[k, 0, 0])\n",
    "            gemm(S[i, 0, 0], A[k, 0, 0], B[k, 0, 0])\n            gemm(S[i, 0, 0], A[0, 0, 0], B[k, 0, 0])\n",
)
MOVED = PRODUCTS.replace(
    "for i in range(4):\n            gemm(S[i", "for i in range(3):\n            gemm(S[i + 1"
)
LEFT_ALONE = {
    "a result in the opposite order": (InPlace(), TURNED),
    "a result that is written twice": (InPlace(), WRITTEN_TWICE),
    "an operand of another rank": (InPlace(), OF_OTHER_RANK),
    "buffers of another memory": (InPlace(Scope.INPUT), IN_PLACE),
    "products under a condition": (StartSums(((GEMM, GEMM_FROM),), RESET), UNDER_A_CONDITION),
    "sums that two products add to": (StartSums(((GEMM, GEMM_FROM),), RESET), TWO_PRODUCTS),
    "products of other accumulators": (StartSums(((GEMM, GEMM_FROM),), RESET), MOVED),
}


@pytest.mark.parametrize("title", LEFT_ALONE)
def test_what_a_pass_leaves_alone(title):
    item, text = LEFT_ALONE[title]
    func = parse_func(text, INTRINSICS)
    verify(func)
    assert print_calls(item.run(func)) == text


def test_products_and_resets_under_the_same_condition_are_joined():
    func = parse_func(UNDER_THE_SAME, INTRINSICS)
    changed = StartSums(((GEMM, GEMM_FROM),), RESET).run(func)
    before = "    for i in range(4):\n        if i < 3:\n            reset(S[i, 0, 0])\n"
    text = UNDER_THE_SAME.replace(before, "").replace("gemm(", "gemm_from(")
    assert print_calls(changed) == text.replace("B[k, 0, 0])", "B[k, 0, 0], k < 1)")
    np.testing.assert_array_equal(run(changed), run(func))


def test_only_the_reset_right_before_the_products_goes_into_them():
    changed = print_calls(StartSums(((GEMM, GEMM_FROM),), RESET).run(parse_func(BETWEEN, INTRINSICS)))
    assert changed == BETWEEN


@pytest.mark.parametrize(
    ("loops", "condition"),
    [
        ("for k in range(3):\n        for l in range(2):", "k + l < 1"),
        ("for k in range(1):\n        for l in range(2):", "l < 1"),
        ("for k in range(1):\n        for l in range(1):", "0 < 1"),
    ],
)
def test_the_first_product_of_a_sum_is_that_of_the_first_step_of_every_loop(loops, condition):
    text = PRODUCTS.replace(
        "for k in range(3):\n        for i in range(4):\n", f"{loops}\n            for i in range(4):\n"
    )
    text = text.replace("            gemm(", "                gemm(")
    changed = print_calls(StartSums(((GEMM, GEMM_FROM),), RESET).run(parse_func(text, INTRINSICS)))
    before = "    for i in range(4):\n        reset(S[i, 0, 0])\n"
    assert changed == text.replace(before, "").replace("gemm(", "gemm_from(").replace(
        "B[k, 0, 0])", f"B[k, 0, 0], {condition})"
    )


THREADS = """\
def f(A: int8[3, 4, 1, 2], C: int8[4, 1, 2]):
    for v in vthread(2):
        S = alloc(int32[1, 1, 2], "accumulator")
        for k in range(3):
            if CONDITION:
                L = alloc(int8[1, 1, 2], "input")
                load_inp(L[0, 0, 0], A[k, v, 0, 0])
                work(S[0, 0, 0], L[0, 0, 0])
        store(C[v, 0, 0], S[0, 0, 0])
"""


@pytest.mark.parametrize(("condition", "apart"), [("k < 2", True), ("k < 2 - v", False)])
def test_threads_are_interleaved_below_conditions_that_are_the_same_for_all(condition, apart):
    func = parse_func(THREADS.replace("CONDITION", condition), INTRINSICS)
    changed = InterleaveVirtualThreads().run(func)
    verify(changed)
    lines = [line.strip() for line in print_calls(changed).splitlines()]
    loads = next(place for place, line in enumerate(lines) if line.startswith("load_inp"))
    assert lines[loads - 1].startswith("for v") == apart
    assert lines[loads + 1].startswith("for v") == apart
    np.testing.assert_array_equal(run(changed), run(func))
