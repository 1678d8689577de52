"""Text of loop programs that are not lowered from a schedule, and the arrays of their constant operands."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import indent

import numpy as np

from vdla.compiler.codegen.intrinsics import accelerator, element_shapes
from vdla.compiler.ir.nodes import Buffer, Func, Scope
from vdla.compiler.ir.parse import parse_func
from vdla.compiler.ir.text import buffer_type
from vdla.compiler.te.operators.convolution import Windows
from vdla.compiler.te.operators.narrowing import LEAST
from vdla.compiler.te.operators.sizes import Convolution
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import Parameter

STEP = "    "
LOADS = {
    Scope.INPUT: "load_inp",
    Scope.WEIGHT: "load_wgt",
    Scope.ACCUMULATOR: "load_acc8",
    Scope.PARAMETERS: "load_parameters",
}


@dataclass(frozen=True, slots=True)
class ChipBuffer:
    """A buffer on chip, with a loop for each dimension above its elements.

    Attributes:
        name: name in the program.
        scope: memory, which also decides shape and type of an element.
        loops: extents by name of the loop, outermost first.
    """

    name: str
    scope: Scope
    loops: Mapping[str, int]
    config: AcceleratorConfig

    @property
    def kind(self) -> str:
        """Type of the buffer, and of an operand in DRAM that has the same elements."""
        return operand_type(self.config, *self.loops.values(), scope=self.scope)

    @property
    def element(self) -> str:
        """The element that an iteration of the loops accesses."""
        return f"{self.name}[{', '.join(self.loops)}, 0, 0]"

    @property
    def allocation(self) -> str:
        """The statement that allocates the buffer."""
        return f'{self.name} = alloc({self.kind}, "{self.scope}")'

    def each(self, call: str) -> str:
        """Return the loops around a call."""
        return nest(self.loops, call)

    def loaded(self, source: str) -> str:
        """Return the allocation of the buffer and the load of each element from element `source` of an
        operand."""
        return f"{self.allocation}\n{self.each(f'{LOADS[self.scope]}({self.element}, {source})')}"

    def zeros(self) -> str:
        """Return the allocation of accumulators and their reset to 0."""
        return f"{self.allocation}\n{self.each(f'reset({self.element})')}"


@dataclass(frozen=True, slots=True)
class ConstantOperand:
    """An operand that a program loads as a whole, ahead of its other statements.

    Attributes:
        name: name of the parameter; the buffer that holds the operand is called `{name}L`.
        scope: memory of that buffer.
        count: number of elements; for parameters of requantisation, the number of sets.
    """

    name: str
    scope: Scope
    count: int = 1

    def buffer(self, config: AcceleratorConfig) -> ChipBuffer:
        """Return the buffer that holds the operand."""
        rows = {"row": len(Parameter)} if self.scope is Scope.PARAMETERS else {}
        return ChipBuffer(f"{self.name}L", self.scope, {"k": self.count, **rows}, config)


IDENTITY = ConstantOperand("W", Scope.WEIGHT)
"""The identity matrix as weights."""
REQUANTISATION = ConstantOperand("P", Scope.PARAMETERS)
"""A single set of parameters for all channels."""
SCALED = "PL[0, 0, 0, 0]"
"""The last operand of a `store_scaled` by that set."""


def scalar_weights(factors: Sequence[int], config: AcceleratorConfig) -> np.ndarray:
    """Return int8[n, block_out, block_in]: for each factor, the identity matrix times the factor."""
    identity = np.eye(config.block_out, config.block_in, dtype=np.int8)
    return np.stack([identity * np.int8(factor) for factor in factors])


def channel_masks(config: AcceleratorConfig) -> np.ndarray:
    """Return int8[block_out, block_out, block_in]: block r keeps channel r and clears all other channels."""
    rows = np.arange(config.block_out)
    weights = np.zeros((config.block_out,) * 3, np.int8)
    weights[rows, rows, rows] = 1
    return weights


def constant_inputs(values: Sequence[int], config: AcceleratorConfig) -> np.ndarray:
    """Return int8[n, batch, block_in]: for each value, an input with the value in every lane."""
    column = np.array(values, np.int8).reshape(-1, 1, 1)
    return np.ascontiguousarray(np.broadcast_to(column, (len(values), config.batch, config.block_in)))


def one_hot_inputs(config: AcceleratorConfig) -> np.ndarray:
    """Return int8[block_in, 1, block_in]: input r is 1 in lane r and 0 elsewhere."""
    return np.eye(config.block_in, dtype=np.int8)[:, None, :]


def operand_type(config: AcceleratorConfig, *extents: int, scope: Scope = Scope.DRAM) -> str:
    """Return the type of an array of elements.

    Args:
        scope: memory whose elements the array holds; DRAM: int8[batch, block_out], the elements of results.
    """
    inp, wgt, acc, out = element_shapes(config)
    element: Buffer = {Scope.INPUT: inp, Scope.WEIGHT: wgt, Scope.DRAM: out}.get(scope, acc)("element")
    return buffer_type(replace(element, shape=(*extents, *element.shape)))


def nest(loops: Mapping[str, int], body: str, *, threads: str = "") -> str:
    """Return a nest of loops (extents by name, outermost first) around statements. The loop called `threads`
    becomes virtual threads."""
    for name, extent in reversed(tuple(loops.items())):
        kind = "vthread" if name == threads else "range"
        body = f"for {name} in {kind}({extent}):\n{indent(body, STEP)}"
    return body


def where(condition: str, body: str) -> str:
    """Return statements under a condition; "" always holds."""
    return f"if {condition}:\n{indent(body, STEP)}" if condition else body


def summed(part: str, loops: Mapping[str, int], sums: str, products: str) -> Iterator[str]:
    """Yield products that are added to sums; in part 0 of a sum, they begin it.

    Args:
        part: variable with the number of the part.
        loops, sums: the accumulators, and the loops over them.
    """
    yield where(f"{part} < 1", f"{nest(loops, f'reset({sums})')}\n{products}")
    yield where(f"1 <= {part}", products)


def inside_image(place: str, first: int, end: int, extent: int) -> Iterator[str]:
    """Yield the conditions that a place in `first..end - 1` is in an image."""
    if first < 0:
        yield f"0 <= {place}"
    if end > extent:
        yield f"{place} < {extent}"


def padded_load(operands: str, inside: str, border: int) -> str:
    """Return the load of an input, which is the border where the condition `inside` does not hold; "" always
    holds."""
    if not inside:
        return f"load_inp({operands})"
    if border in (0, LEAST):
        return f"load_inp_padded{'_least' if border else ''}({operands}, {inside})"
    return f"load_inp_padded_imm({operands}, {inside}, int8({border}))"


def window_places(windows: Windows, size: Convolution) -> Iterator[tuple[str, str]]:
    """Yield the row and the column of each input that a window of the sum at row `y`, column `x` reads. `dy`
    and `dx` number the windows of the sum.

    Args:
        size: the depthwise convolution whose kernel the windows cover.
    """
    (down, across), below = size.stride, size.dilation[0]
    for row, column in np.ndindex(windows.rows, windows.columns):
        y = f"y * {down} + dy * {windows.row_step * below} + {row * below}"
        yield y, f"x * {across} + dx * {windows.column_step} + {column}"


def threaded(loops: Mapping[str, int], statements: Iterable[str]) -> str:
    """Return a nest of loops around statements; the loop `thread` becomes virtual threads."""
    return nest(loops, "\n".join(statements), threads="thread")


def parse_program(
    operands: Mapping[str, str],
    statements: Iterable[str],
    config: AcceleratorConfig,
    constants: Iterable[ConstantOperand] = (),
) -> Func:
    """Return the loop program with these statements, which follow the loads of `constants`. A constant of 0
    elements is left out.

    Args:
        operands: types by name of all other parameters.
    """
    held = {constant.name: constant.buffer(config) for constant in constants if constant.count}
    params = {name: buffer.kind for name, buffer in held.items()} | dict(operands)
    loads = [buffer.loaded(f"{name}[{', '.join(buffer.loops)}, 0, 0]") for name, buffer in held.items()]
    head = ", ".join(f"{name}: {kind}" for name, kind in params.items())
    body = indent("\n".join([*loads, *statements]), STEP)
    return parse_func(f"def main({head}):\n{body}\n", accelerator(config).every)
