"""What the layer over LLVM's builder emits, run: loops, refusals, the lesser of two, and signed words."""

import ctypes
from collections.abc import Callable
from operator import add, and_, gt, le, mul, rshift, sub, xor

import llvmlite.binding as llvm
import pytest
from llvmlite import ir

from vdla.sim.native.emit import DONE, I64, REFUSED, Emitter, Word, i64
from vdla.sim.processor import target_machine

MOST = (1 << 64) - 1


def compiled(body: Callable[[Emitter], None], result: int = DONE) -> Callable[[int, int], int]:
    """Return a function of two 64-bit numbers, whose code `body` emits and which else returns `result`."""
    module = ir.Module()
    emitter = Emitter(module, "sample", [I64, I64], exported=True)
    body(emitter)
    if not emitter.builder.block.is_terminated:
        emitter.finish(result)
    machine = target_machine()
    parsed = llvm.parse_assembly(str(module))
    parsed.verify()
    engine = llvm.create_mcjit_compiler(parsed, machine)
    engine.finalize_object()
    prototype = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64)
    function = prototype(engine.get_function_address("sample"))
    return lambda left, right, owner=engine: function(left, right)


def summed(emit: Callable[[Emitter, Callable[[ir.Value], None]], None]) -> Callable[[int, int], int]:
    """Return a function that writes the indices of loops in sequence, as digits."""

    def body(e: Emitter) -> None:
        total = e.variable(i64(0))
        emit(e, lambda index: total.set(e.sum(e.scaled(total.get(), 10), index, i64(1))))
        e.builder.ret(total.get())

    return compiled(body)


@pytest.mark.parametrize(
    ("first", "count", "digits"), [(0, 4, 1234), (2, 5, 345), (3, 3, 0), (4, 3, 0), (0, 0, 0)]
)
def test_a_loop_runs_from_its_first_index_to_before_its_count(first, count, digits):
    function = summed(lambda e, body: e.loop(e.arguments[1], body, e.arguments[0]))
    assert function(first, count) == digits
    if not first:
        assert summed(lambda e, body: e.loop(e.arguments[1], body))(7, count) == digits


def test_a_loop_runs_while_its_condition_holds():
    def body(e: Emitter) -> None:
        rest = e.variable(e.arguments[0])
        e.loop_while(
            lambda: e.builder.icmp_unsigned(">=", rest.get(), e.arguments[1]),
            lambda: rest.set(e.builder.sub(rest.get(), e.arguments[1])),
        )
        e.builder.ret(rest.get())

    function = compiled(body)
    assert [function(left, 5) for left in (0, 4, 5, 23)] == [0, 4, 0, 3]


@pytest.mark.parametrize(
    ("count", "unroll", "loops"), [(3, 3, 0), (4, 3, 1), (8, 8, 0), (9, 8, 1), (1, 1, 0), (2, 1, 1)]
)
def test_few_repetitions_are_spelt_out_and_many_are_a_loop(count, unroll, loops):
    digits = int("".join(str(place) for place in range(1, count + 1)))
    phi_counts = []

    def emit(e: Emitter, body: Callable[[ir.Value], None]) -> None:
        e.repeat(count, body, unroll)
        phi_counts.append(str(e.function).count("phi "))

    assert summed(emit)(0, 0) == digits
    assert phi_counts == [loops]


@pytest.mark.parametrize("count", [8, 9])
def test_up_to_eight_repetitions_are_spelt_out_where_nothing_is_said(count):
    emitter = Emitter(ir.Module(), "sample", [I64])
    emitter.repeat(count, lambda index: None)
    assert str(emitter.function).count("phi ") == (count > 8)


def test_a_refusal_and_an_end_come_where_their_conditions_hold():
    def body(e: Emitter) -> None:
        for condition, leave in ((0, e.refuse_if), (1, e.done_if)):
            leave(e.builder.icmp_unsigned("==", e.arguments[0], i64(condition)))

    function = compiled(body, 77)
    assert [function(left, 0) for left in (0, 1, 2)] == [REFUSED, DONE, 77]
    assert len({REFUSED, DONE, 77}) == 3


def test_what_has_a_condition_runs_only_there():
    def body(e: Emitter) -> None:
        value = e.variable(i64(5))
        with e.when(e.builder.icmp_unsigned("==", e.arguments[0], i64(1))):
            value.set(i64(6))
        e.builder.ret(value.get())

    assert [compiled(body)(left, 0) for left in (0, 1)] == [5, 6]


@pytest.mark.parametrize(("left", "right"), [(1, 2), (2, 1), (3, 3), (0, MOST), (MOST, 1), (1 << 63, 1)])
def test_the_lesser_of_two_values_is_that_of_unsigned_ones(left, right):
    function = compiled(lambda e: e.builder.ret(e.least(*e.arguments)))
    assert function(left, right) == min(left, right)


OPERATIONS = {"+": add, "-": sub, "*": mul, ">": gt, "<=": le, "&": and_}
VALUES = (-7, -1, 0, 1, 2, 6, 7)


@pytest.mark.parametrize("sign", OPERATIONS)
def test_words_compute_as_signed_numbers_do(sign):
    operate = OPERATIONS[sign]

    def returned(e: Emitter, word: Word) -> None:
        e.builder.ret(e.builder.zext(word.value, I64) if word.value.type != I64 else word.value)

    def body(e: Emitter) -> None:
        returned(e, operate(*(Word(e.builder, value) for value in e.arguments)))

    function = compiled(body)
    for left in VALUES:
        for right in VALUES:
            assert function(left & MOST, right & MOST) == int(operate(left, right)) & MOST
    by_number = compiled(lambda e: returned(e, operate(Word(e.builder, e.arguments[0]), 6)))
    for left in VALUES:
        assert by_number(left & MOST, 0) == int(operate(left, 6)) & MOST


@pytest.mark.parametrize(
    ("operate", "number"), [(xor, 5), (rshift, 1), (add, 3), (mul, 3)], ids=lambda it: str(it)
)
def test_words_compute_with_numbers_on_either_side(operate, number):
    function = compiled(lambda e: e.builder.ret(operate(Word(e.builder, e.arguments[0]), number).value))
    assert [function(left & MOST, 0) for left in VALUES] == [operate(left, number) & MOST for left in VALUES]
    if operate in (add, mul):
        turned = compiled(lambda e: e.builder.ret(operate(number, Word(e.builder, e.arguments[0])).value))
        assert [turned(left & MOST, 0) for left in VALUES] == [
            operate(number, left) & MOST for left in VALUES
        ]
