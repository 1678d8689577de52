"""Operations of the ALU over elements: on constants and functions of a byte as on numbers, else as
polynomials."""

import numpy as np
import pytest

from vdla.hw.spec import numerics
from vdla.hw.spec.vocabulary import AluOpcode
from vdla.prove.alu import Operation
from vdla.prove.domain import Domain
from vdla.prove.elements import Sums, along, equal, within
from vdla.prove.errors import ProofError
from vdla.prove.functions import BYTES

BITS = 32
NUMBERS = (-(1 << 31), -70000, -129, -5, -1, 0, 1, 4, 31, 127, 70000, (1 << 31) - 1)


def sums_of(domain: Domain, numbers: np.ndarray) -> Sums:
    return domain.values(domain.constants(numbers))


def residues_are_equal(left: Sums, right: Sums) -> bool:
    left_residues, right_residues = (
        within(within(sums, 1 << 51), 1 << 30).residues for sums in (left, right)
    )
    return bool((np.rint(left_residues - right_residues) % along(left_residues.ndim) == 0).all())


@pytest.mark.parametrize("opcode", AluOpcode)
def test_constants_give_the_numbers_of_the_definition(opcode):
    domain = Domain(1)
    left, right = (each.reshape(-1) for each in np.meshgrid(NUMBERS, NUMBERS))
    expected = [numerics.alu(opcode, *pair, BITS) for pair in zip(left.tolist(), right.tolist(), strict=True)]
    operation = Operation(domain, opcode, BITS)
    result = operation.of(sums_of(domain, left), sums_of(domain, right))
    assert result.source is not None
    assert equal(result.source, domain.constants(np.array(expected))).all()
    for number in NUMBERS[1:-1]:
        whole = [numerics.alu(opcode, each, number, BITS) for each in NUMBERS]
        with_number = operation.with_immediate(sums_of(domain, np.array(NUMBERS)), number)
        assert with_number.source is not None
        assert equal(with_number.source, domain.constants(np.array(whole))).all(), number


@pytest.mark.parametrize("opcode", AluOpcode)
def test_functions_of_a_byte_are_composed(opcode):
    domain = Domain(1)
    x = domain.fresh("x", (1,))
    result = Operation(domain, opcode, BITS).with_immediate(domain.values(x), 3)
    assert result.source is not None
    values = [numerics.alu(opcode, byte, 3, BITS) for byte in BYTES.tolist()]
    assert domain.functions.values[result.source["function"].reshape(-1)[0]].tolist() == values


@pytest.mark.parametrize(
    ("opcode", "extreme"), [(AluOpcode.MAX, Domain.maximum), (AluOpcode.MIN, Domain.minimum)]
)
def test_a_bound_of_a_greatest_is_a_member_of_it(opcode, extreme):
    domain = Domain(1)
    members, bound = domain.fresh("x", (2, 1)), domain.constants(np.array([15]))
    operation = Operation(domain, opcode, BITS)
    result = operation.of(domain.values(extreme(domain, members)), domain.values(bound))
    expected = extreme(domain, np.concatenate((members, bound[None])))
    assert equal(domain.narrowed(result), expected).all()


def test_sums_of_several_roots_are_polynomials():
    domain = Domain(1)
    x, y = (domain.values(domain.fresh(name, (4,))) for name in "xy")
    add, multiply, shift = (
        Operation(domain, opcode, BITS) for opcode in (AluOpcode.ADD, AluOpcode.MUL, AluOpcode.SHR)
    )
    total = add.of(x, y)
    assert residues_are_equal(total, add.of(y, x))
    w = domain.values(domain.fresh("w", (4,)))
    assert residues_are_equal(multiply.of(total, w), add.of(multiply.of(x, w), multiply.of(y, w)))
    assert residues_are_equal(shift.with_immediate(total, -3), multiply.with_immediate(total, 8))
    assert not residues_are_equal(total, x)


@pytest.mark.parametrize(
    ("opcode", "number"),
    [(AluOpcode.MIN, None), (AluOpcode.MAX, None), (AluOpcode.SHR, None), (AluOpcode.SHR, 2)],
)
def test_what_is_no_polynomial_of_several_roots_is_refused(opcode, number):
    domain = Domain(1)
    x, y, z = (domain.values(domain.fresh(name, (2,))) for name in "xyz")
    total, operation = domain.add(x, y), Operation(domain, opcode, BITS)
    if number is None:
        with pytest.raises(ProofError, match="a proof does not cover"):
            operation.of(total, z)
    else:
        shifted = operation.with_immediate(total, number)
        assert shifted.source is not None, "a shift to the right of a sum is a new root"
        assert not equal(shifted.source, operation.with_immediate(domain.add(x, z), number).source).any()
