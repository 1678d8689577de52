"""Each pass as text before and after, and meaning kept."""

import numpy as np
import pytest

from vdla.compiler.ir.interpret import interpret
from vdla.compiler.ir.parse import parse_func, parse_intrinsic
from vdla.compiler.ir.passes.inplace import InPlace
from vdla.compiler.ir.passes.start_sums import StartSums
from vdla.compiler.ir.passes.virtual_threads import InterleaveVirtualThreads
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
        StartSums(GEMM, RESET, GEMM_FROM),
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
        StartSums(GEMM, RESET, GEMM_FROM),
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
        StartSums(GEMM, RESET, GEMM_FROM),
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
