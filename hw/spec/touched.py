"""What instructions touch: footprints, evaluated.

A footprint holds sums of products of fields only. So one declaration is evaluated on the numbers of an
instruction, on the columns of a stream (NumPy), and on values of native code.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, reduce
from operator import add, and_, mul
from typing import Any, NamedTuple

from vdla.hw.spec import isa
from vdla.hw.spec.footprint import FOOTPRINTS, ONCE, Access, Footprint

Value = Any  # an int, an integer array, or a value of native code: what adds, multiplies and compares
Fields = Callable[[str], Value]  # a field of the instructions by name; 0 where they have none of that name

_TERM = re.compile(r"([+-]?)\s*(\w+(?:\s*\*\s*\w+)*)")


@cache
def _terms(text: str) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """Return the terms of a sum: a number and the fields that it is multiplied with."""
    terms = ((sign, re.findall(r"\w+", product)) for sign, product in _TERM.findall(text))
    return tuple(
        (
            reduce(mul, (int(factor) for factor in factors if factor.isdigit()), -1 if sign == "-" else 1),
            tuple(factor for factor in factors if not factor.isdigit()),
        )
        for sign, factors in terms
    )


def total(text: str, fields: Fields) -> Value:
    """Return the value of a sum of products of fields."""
    return reduce(add, (_product(number, [fields(name) for name in names]) for number, names in _terms(text)))


def _product(number: int, values: Sequence[Value]) -> Value:
    if not values:
        return number
    product = reduce(mul, values)
    return product if number == 1 else product * number


def happens(footprint: Footprint, access: Access, fields: Fields) -> Value:
    """Return whether the instruction makes an access and it touches anything."""
    positive = (*footprint.trips, access.outer.every, access.inner.every, *access.where)
    tests = [total(text, fields) > 0 for text in dict.fromkeys(positive) if not text.isdigit()]
    tests += [] if access.of is None else [fields("memory_type") == access.of]
    return reduce(and_, (*tests, *(fields(name) <= 0 for name in access.unless)))


def extent(access: Access, fields: Fields, uops: tuple[Value, Value] = (0, 0)) -> tuple[Value, Value]:
    """Return the first element of an access that happens, and one past its last.

    Args:
        uops: the least and the greatest value of its field in the micro-ops, where it names a field.
    """
    first = total(access.base, fields)
    last = first
    for axis in (access.outer, access.inner):
        if axis is not ONCE:
            last = last + (total(axis.every, fields) - 1) * total(axis.step, fields)
    return first + uops[0], last + uops[1] + 1


class ByteRows(NamedTuple):
    """Rows of bytes: row y is the `width` bytes from `begin + y * stride` on, for y < `count`."""

    begin: Value
    stride: Value
    width: Value
    count: Value

    @property
    def end(self) -> Value:
        """One past the last byte of the last row."""
        return self.begin + (self.count - 1) * self.stride + self.width


def rows_in_dram(access: Access, fields: Fields, element: Value) -> ByteRows:
    """Return the bytes of an access in DRAM that happens, of elements of `element` bytes."""
    base, stride, step = (total(text, fields) for text in (access.base, access.outer.step, access.inner.step))
    count, width = (total(axis.every, fields) for axis in (access.outer, access.inner))
    if access.in_bytes:
        return ByteRows(base, stride, (width - 1) * step + element, count)
    return ByteRows(base * element, stride * element, width * element, count)


def named(access: Access, fields: Fields) -> Value:
    """Return the memory type whose elements an access counts."""
    return fields("memory_type") if access.memory is None else access.memory


def accesses(instruction: isa.Instruction) -> Iterator[Access]:
    """Yield the accesses that an instruction makes.

    Raises:
        KeyError: it has no footprint.
    """
    footprint = FOOTPRINTS[type(instruction)]
    fields = fields_of(instruction)
    return (access for access in footprint.accesses if happens(footprint, access, fields))


def steps(form: type[isa.Instruction], fields: Fields) -> Value:
    """Return the steps that an instruction makes through micro-ops; not positive where it makes none."""
    return reduce(mul, (total(text, fields) for text in FOOTPRINTS[form].trips))


def fields_of(instruction: isa.Instruction) -> Fields:
    """Return the fields of one instruction."""
    return lambda name: getattr(instruction, name, 0)


def elements(
    access: Access, fields: Fields, uops: Sequence[int] = (0,), *, padding: bool = True
) -> Iterator[int]:
    """Yield the elements of an access that happens, step by step.

    Args:
        fields: of one instruction.
        uops: the values of its field in the micro-ops that the instruction steps through, where it names a
            field.
        padding: False: leave out what is padding. The elements of a LOAD on chip then follow in the order of
            the elements in DRAM.
    """
    first, ranges, steps_of = total(access.base, fields), [], []
    for axis in (access.outer, access.inner):
        begin = 0 if padding else total(axis.before, fields)
        ranges.append(range(begin, begin + total(axis.every if padding else axis.trips, fields)))
        steps_of.append(total(axis.step, fields))
    out, step = steps_of
    return (first + i * out + j * step + base for i in ranges[0] for j in ranges[1] for base in uops)
