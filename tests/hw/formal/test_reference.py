"""The reference of the proofs, `numerics` over signals, has the values of `numerics` over integers."""

import random

import pytest
from amaranth.hdl import Const, Module, Signal, signed, unsigned
from amaranth.sim import Simulator

from vdla.hw.formal.reference import Number, number, symbolic
from vdla.hw.spec import numerics
from vdla.hw.spec.vocabulary import AluOpcode


def values_of(expressions: list[Number]) -> list[int]:
    """Return the values of constant numbers."""
    m, outputs = Module(), [Signal(expression.value.shape()) for expression in expressions]
    m.d.comb += [output.eq(expression.value) for output, expression in zip(outputs, expressions, strict=True)]
    values = []

    async def read(context):
        values.extend(context.get(output) for output in outputs)

    simulator = Simulator(m)
    simulator.add_testbench(read)
    simulator.run()
    return values


def given(value: int, bits: int, is_signed: bool = True) -> Number:
    return number(Const(value, signed(bits) if is_signed else unsigned(bits)))


def check(cases: list[tuple[Number, int]], fits: list) -> None:
    results = values_of([result for result, _ in cases])
    assert results == [expected for _, expected in cases]
    assert all(result.low <= expected <= result.high for result, expected in cases)
    assert values_of([number(condition) for condition in fits]) == [1] * len(fits)


@pytest.mark.parametrize("opcode", list(AluOpcode))
def test_operations_of_small_widths_are_those_of_numerics(opcode):
    """Every pair of operands of 3 bits."""
    fits, bits = [], 3
    names, numbers = symbolic(fits), range(-4, 4)
    cases = [
        (
            names.alu(opcode, given(left, bits), given(right, bits), bits),
            numerics.alu(opcode, left, right, bits),
        )
        for left in numbers
        for right in numbers
    ]
    check(cases, fits)


@pytest.mark.parametrize("bits", [16, 32])
def test_requantisation_is_that_of_numerics(bits):
    rng, fits = random.Random(bits), []
    names, cases = symbolic(fits), []
    for _ in range(40):
        words = [rng.randrange(-(1 << bits - 1), 1 << bits - 1) for _ in range(5)]
        expected = numerics.requantise(words[0], words[1:], bits)
        value, *parameters = (given(word, bits) for word in words)
        cases.append((names.requantise(value, parameters, bits), expected))
    check(cases, fits)


def test_residuals_are_those_of_numerics():
    rng, fits = random.Random(1), []
    names, cases = symbolic(fits), []
    for _ in range(40):
        both = [rng.randrange(-128, 128) for _ in range(2)]
        words = [rng.randrange(-(1 << 31), 1 << 31) for _ in range(4)]
        expected = numerics.add_residual(*both, words)
        left, right = (given(byte, 8) for byte in both)
        cases.append((names.add_residual(left, right, [given(word, 32) for word in words]), expected))
    check(cases, fits)
