"""Host operators that work element by element, such as DequantizeLinear.

A result that depends on a single byte is a function of this byte, computed by the host's operator for all 256
values; it holds the bits of the results. Any other result is a new root, which the operator and its operands
name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.graph.conversions import CONVERSIONS
from vdla.prove.axioms import Axiom
from vdla.prove.domain import Domain
from vdla.prove.elements import ELEMENT, NO_ROOT, Elements, same_roots
from vdla.prove.functions import Numbers, distinct_pairs
from vdla.runtime.host import elementwise, logic
from vdla.runtime.host.evaluate import evaluate

BY_ELEMENT = frozenset((*elementwise.OPERATORS, *logic.OPERATORS, *CONVERSIONS))


def bits_of(array: np.ndarray) -> NDArray[np.int64]:
    """Return the bits of elements of any type as int64[...]."""
    return np.ascontiguousarray(array).view(f"i{array.itemsize}").reshape(array.shape).astype(np.int64)


def from_bits(bits: np.ndarray, dtype: str) -> np.ndarray:
    """Return the elements of a type that have these bits."""
    return np.ascontiguousarray(bits.astype(f"i{np.dtype(dtype).itemsize}")).view(dtype)


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand of an operator, which broadcasts to the shape of the result.

    Attributes:
        elements: elements[...]; of a constant, its bits as `lo`.
        dtype: type of the values.
        is_constant: whether it is a constant.
    """

    elements: Elements
    dtype: str
    is_constant: bool = False

    @classmethod
    def of_constant(cls, array: np.ndarray) -> "Operand":
        """Return a constant operand."""
        elements = np.zeros(array.shape, ELEMENT)
        elements["lo"] = bits_of(array).view(np.uint64)
        return cls(elements, str(array.dtype), True)


@dataclass(frozen=True)
class ByElement:
    """An operator of `BY_ELEMENT`.

    Attributes:
        shape, dtype: of the result.
    """

    domain: Domain
    op: str
    attributes: Mapping[str, object]
    shape: tuple[int, ...]
    dtype: str

    def result(self, operands: Sequence[Operand]) -> Elements:
        """Return the result of the operator, elements[shape]."""
        self.domain.use(Axiom.BY_ELEMENT)
        rows = np.stack([self._spread(each) for each in operands], 1)
        kind = self.domain.kind("by element", *self._application(operands))
        result = self.domain.named_by(rows, kind, self.dtype)
        variable = [place for place, each in enumerate(operands) if not each.is_constant]
        roots, single = self._roots(rows[:, variable])
        if single.any():
            functions = self._functions(rows[single], operands)
            result[single] = self.domain.of_roots(roots[single], functions)
        return result.reshape(self.shape)

    def _application(self, operands: Sequence[Operand]) -> tuple[object, ...]:
        types = tuple(each.dtype for each in operands)
        return self.op, tuple(self.attributes.items()), types, self.dtype

    def _spread(self, operand: Operand) -> Elements:
        """Return an operand as elements[n], one for each element of the result."""
        elements = operand.elements
        if operand.is_constant and self.op in CONVERSIONS and elements.size > 1:
            axis = int(str(self.attributes["axis"])) % len(self.shape)
            elements = elements.reshape([-1 if place == axis else 1 for place in range(len(self.shape))])
        elif operand.is_constant and elements.size == 1:
            elements = elements.reshape(())
        return np.broadcast_to(elements, self.shape).reshape(-1)

    def _roots(self, rows: Elements) -> tuple[Elements, NDArray[np.bool_]]:
        """Return the only byte that each row of elements[n, m] depends on, elements[n], and whether it
        depends on no other byte."""
        root = rows[:, 0]
        single = ~self.domain.is_wide(root)
        for column in rows.T[1:]:
            constant = root["kind"] == NO_ROOT
            single &= ~self.domain.is_wide(column)
            single &= constant | (column["kind"] == NO_ROOT) | same_roots(root, column)
            root = np.where(constant, column, root)
        return root, single

    def _functions(self, rows: Elements, operands: Sequence[Operand]) -> Numbers:
        """Return the results of rows of operands elements[n, m] as functions of their root, int32[n]."""
        columns = [
            row["lo"].view(np.int64) if operand.is_constant else row["function"].astype(np.int64)
            for row, operand in zip(rows.T, operands, strict=True)
        ]
        places = np.zeros(len(rows), np.int64)
        for column in columns:
            _, places = distinct_pairs(places, np.ascontiguousarray(column))
        firsts = np.unique(places, return_index=True)[1]
        numbers = [self._function([int(column[first]) for column in columns], operands) for first in firsts]
        functions: Numbers = np.array(numbers, np.int32)[places]
        return functions

    def _function(self, row: Sequence[int], operands: Sequence[Operand]) -> int:
        """Return the number of the function that operands make: functions of a byte, or the bits of
        constants."""
        column = (-1, *[1] * max(0, len(self.shape) - 1))
        arrays = [
            from_bits(np.array(value), operand.dtype)
            if operand.is_constant
            else from_bits(self.domain.functions.values[value], operand.dtype).reshape(column)
            for value, operand in zip(row, operands, strict=True)
        ]
        (values,) = evaluate(self.op, arrays, self.attributes)
        return self.domain.functions.number(bits_of(values).reshape(-1))
