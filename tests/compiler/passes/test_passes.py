"""Each pass as text before and after, and meaning kept."""

import numpy as np
import pytest

from vdla.compiler.ir.interpret import interpret
from vdla.compiler.ir.parse import parse_func
from vdla.compiler.ir.text import print_func
from vdla.compiler.passes.inplace import InPlace
from vdla.compiler.passes.start_sums import StartSums
from vdla.compiler.passes.virtual_threads import InterleaveVirtualThreads

PASSES = {
    "element-wise results take their operand's place": (InPlace(), """\
def f(A: int32[4, 1, 2], C: int8[4, 1, 2]):
    X = alloc(int32[4, 1, 2], "accumulator")
    for i in range(4):
        with load_acc(X[i, 0, 0], A[i, 0, 0]):
            for j in range(2):
                X[i, 0, j] = A[i, 0, j]
    for o in range(2):
        Y = alloc(int32[2, 1, 2], "accumulator")
        for k in range(2):
            with shr_imm(Y[k, 0, 0], X[o * 2 + k, 0, 0], int32(1)):
                for j in range(2):
                    Y[k, 0, j] = X[o * 2 + k, 0, j] >> int32(1)
        for k in range(2):
            with store(C[o * 2 + k, 0, 0], Y[k, 0, 0]):
                for j in range(2):
                    C[o * 2 + k, 0, j] = int8(Y[k, 0, j])
""", """\
def f(A: int32[4, 1, 2], C: int8[4, 1, 2]):
    X = alloc(int32[4, 1, 2], "accumulator")
    for i in range(4):
        with load_acc(X[i, 0, 0], A[i, 0, 0]):
            for j in range(2):
                X[i, 0, j] = A[i, 0, j]
    for o in range(2):
        for k in range(2):
            with shr_imm(X[k + o * 2, 0, 0], X[o * 2 + k, 0, 0], int32(1)):
                for j in range(2):
                    X[k + o * 2, 0, j] = X[o * 2 + k, 0, j] >> int32(1)
        for k in range(2):
            with store(C[o * 2 + k, 0, 0], X[k + o * 2, 0, 0]):
                for j in range(2):
                    C[o * 2 + k, 0, j] = int8(X[k + o * 2, 0, j])
"""),
    "an operand that something else reads keeps its place": (InPlace(), """\
def f(A: int32[4, 1, 2], C: int8[4, 1, 2]):
    X = alloc(int32[4, 1, 2], "accumulator")
    for i in range(4):
        with load_acc(X[i, 0, 0], A[i, 0, 0]):
            for j in range(2):
                X[i, 0, j] = A[i, 0, j]
    Y = alloc(int32[4, 1, 2], "accumulator")
    for i in range(4):
        with shr_imm(Y[i, 0, 0], X[i, 0, 0], int32(1)):
            for j in range(2):
                Y[i, 0, j] = X[i, 0, j] >> int32(1)
    for i in range(4):
        with add(Y[i, 0, 0], Y[i, 0, 0], X[i, 0, 0]):
            for j in range(2):
                Y[i, 0, j] = Y[i, 0, j] + X[i, 0, j]
    for i in range(4):
        with store(C[i, 0, 0], Y[i, 0, 0]):
            for j in range(2):
                C[i, 0, j] = int8(Y[i, 0, j])
""", None),
    "sums start with their first product": (StartSums(), """\
def f(A: int8[3, 1, 2], B: int8[3, 1, 2], C: int32[4, 1, 1]):
    S = alloc(int32[4, 1, 1], "accumulator")
    for i in range(4):
        with reset(S[i, 0, 0]):
            S[i, 0, 0] = int32(0)
    for k in range(3):
        for i in range(4):
            with gemm(S[i, 0, 0], A[k, 0, 0], B[k, 0, 0]):
                for j in range(2):
                    S[i, 0, 0] = S[i, 0, 0] + int32(A[k, 0, j]) * int32(B[k, 0, j])
    for i in range(4):
        C[i, 0, 0] = S[i, 0, 0]
""", """\
def f(A: int8[3, 1, 2], B: int8[3, 1, 2], C: int32[4, 1, 1]):
    S = alloc(int32[4, 1, 1], "accumulator")
    for k in range(3):
        for i in range(4):
            with gemm_from(S[i, 0, 0], A[k, 0, 0], B[k, 0, 0], k < 1):
                if k < 1:
                    S[i, 0, 0] = int32(0)
                for j in range(2):
                    S[i, 0, 0] = S[i, 0, 0] + int32(A[k, 0, j]) * int32(B[k, 0, j])
    for i in range(4):
        C[i, 0, 0] = S[i, 0, 0]
"""),
    "virtual threads are interleaved, each with buffers of its own": (InterleaveVirtualThreads(), """\
def f(A: int8[3, 4, 1, 2], C: int8[4, 1, 2]):
    for v in vthread(2):
        S = alloc(int32[2, 1, 2], "accumulator")
        for k in range(3):
            L = alloc(int8[2, 1, 2], "input")
            for i in range(2):
                with load_inp(L[i, 0, 0], A[k, v * 2 + i, 0, 0]):
                    for j in range(2):
                        L[i, 0, j] = A[k, v * 2 + i, 0, j]
            for i in range(2):
                with work(S[i, 0, 0], L[i, 0, 0]):
                    for j in range(2):
                        S[i, 0, j] = S[i, 0, j] + int32(L[i, 0, j])
        for i in range(2):
            with store(C[v * 2 + i, 0, 0], S[i, 0, 0]):
                for j in range(2):
                    C[v * 2 + i, 0, j] = int8(S[i, 0, j])
""", """\
def f(A: int8[3, 4, 1, 2], C: int8[4, 1, 2]):
    S = alloc(int32[2, 2, 1, 2], "accumulator")
    for k in range(2):
        L = alloc(int8[2, 2, 1, 2], "input")
        for v in vthread(2):
            for i in range(2):
                with load_inp(L[v, i, 0, 0], A[k, v * 2 + i, 0, 0]):
                    for j in range(2):
                        L[v, i, 0, j] = A[k, v * 2 + i, 0, j]
        for v in vthread(2):
            for i in range(2):
                with work(S[v, i, 0, 0], L[v, i, 0, 0]):
                    for j in range(2):
                        S[v, i, 0, j] = S[v, i, 0, j] + int32(L[v, i, 0, j])
    L = alloc(int8[2, 2, 1, 2], "input")
    for v in vthread(2):
        for i in range(2):
            with load_inp(L[v, i, 0, 0], A[2, v * 2 + i, 0, 0]):
                for j in range(2):
                    L[v, i, 0, j] = A[2, v * 2 + i, 0, j]
    for v in vthread(2):
        for i in range(2):
            with work(S[v, i, 0, 0], L[v, i, 0, 0]):
                for j in range(2):
                    S[v, i, 0, j] = S[v, i, 0, j] + int32(L[v, i, 0, j])
        for i in range(2):
            with store(C[v * 2 + i, 0, 0], S[v, i, 0, 0]):
                for j in range(2):
                    C[v * 2 + i, 0, j] = int8(S[v, i, 0, j])
"""),
}


def run(func):
    rng = np.random.default_rng(3)
    arrays = {buffer.name: rng.integers(-100, 100, buffer.shape).astype(buffer.dtype) for buffer in func.params}
    interpret(func, arrays)
    return arrays["C"]


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_changes_the_text_as_shown_and_not_the_meaning(name):
    item, before, after = PASSES[name]
    func = parse_func(before)
    changed = item.run(func)
    assert print_func(changed) == (after or before)
    np.testing.assert_array_equal(run(changed), run(func))
