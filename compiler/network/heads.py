"""Products of two activations on the accelerator: the second operand becomes weights while the network
runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

import numpy as np

from vdla.compiler.codegen.after import TABLE, After, table_entries
from vdla.compiler.codegen.heads import single_inputs
from vdla.compiler.codegen.packing import blocked_parameters
from vdla.compiler.codegen.planes import units
from vdla.compiler.codegen.tasks import ConvolutionTask, Elements, ElementsTask, RowsTask, TurnTask
from vdla.compiler.network.elements import SAME
from vdla.compiler.network.maker import Kind, Maker, Offloaded, Piece, constants, of_channels, operands
from vdla.compiler.network.planes import MULTIPLIES, multiplies
from vdla.compiler.rules import Rule
from vdla.compiler.te.operators.sizes import blocks, matrix_product
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.layout import IMAGE_RANK, Layout

LOOKED_UP = After(table=1)


@dataclass(frozen=True)
class Part:
    """The parts of a matrix that products read or make, one for each product.

    Attributes:
        shape: of the tensor; its last dimension is columns.
        places: the first row and column of each part.
        rows, columns: of a part.
    """

    shape: tuple[int, ...]
    places: tuple[tuple[int, int], ...]
    rows: int
    columns: int

    @property
    def height(self) -> int:
        """The rows of the matrix."""
        return prod(self.shape[:-1])

    def fault(self, block: int) -> str:
        """Say where a part does not consist of all rows of a matrix, and whole blocks of columns."""
        for row, column in self.places:
            if self.height % self.rows or row % self.rows:
                return f"{self.rows} rows from row {row} on of {self.height}"
            if column % block or (self.columns % block and column + self.columns != self.shape[-1]):
                return f"columns {column} to {column + self.columns} and block_out = {block}"
        return ""

    def layout(self, block: int) -> Layout:
        """Return how the tensor stands in DRAM: the parts' rows one matrix, or one of a stack."""
        stack = self.height // self.rows
        plain = stack == 1 and len(self.shape) != IMAGE_RANK
        return Layout(self.shape, block, 1, stack=0 if plain else stack)

    def begins(self, block: int) -> list[int]:
        """Return the element of the tensor with which each part begins."""
        wide = blocks(self.shape[-1], block)
        return [(row // self.rows * wide + column // block) * self.rows for row, column in self.places]

    def elements(self, block: int) -> int:
        """Return the elements of a part."""
        return blocks(self.columns, block) * self.rows


@dataclass(frozen=True)
class _Products:
    """Products in the making: constants, tensors between pieces, and pieces, in order."""

    maker: Maker
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    scratch: dict[str, int] = field(default_factory=dict)
    pieces: list[Piece] = field(default_factory=list)

    @property
    def block(self) -> int:
        return self.maker.config.block_out

    @cached_property
    def parts(self) -> tuple[Part, Part, Part]:
        """The parts of the operands and of the result."""
        node, (rows, columns, depth) = self.maker.node, self.maker.node.extents("size")
        right = (columns, depth) if node.integer("transposed") else (depth, columns)
        shapes = self.maker.shape(0), self.maker.shape(1), self.maker.graph.types[node.outputs[0]].shape
        places = (
            tuple(zip(found[::2], found[1::2], strict=True))
            for found in map(node.extents, ("a_places", "b_places", "places"))
        )
        sizes = (rows, depth), right, (rows, columns)
        a, b, made = (
            Part(shape, firsts, *size) for shape, firsts, size in zip(shapes, places, sizes, strict=True)
        )
        return a, b, made

    def made(self) -> Offloaded:
        """Return the operator."""
        maker, (a, b, z), config = self.maker, self.parts, self.maker.config
        node, (rows, columns, depth) = maker.node, maker.node.extents("size")
        words = of_channels(maker.constant(2), columns)
        self.constants["P"] = blocked_parameters(words, config)
        left, begins = self.looked_up("A", a, 3)
        self.weights(b)
        task = ConvolutionTask(matrix_product(rows, columns, depth, config))
        each = blocks(columns, self.block) * blocks(depth, self.block)
        for number, (begin, end) in enumerate(zip(begins, z.begins(self.block), strict=True)):
            names = {"X": left, "W": "V"}
            self.pieces.append(Piece(task, names, end, {"X": begin, "W": number * each}))
        return Offloaded(
            node,
            tuple(self.pieces),
            {"A": (node.inputs[0], a.layout(self.block)), "B": (node.inputs[1], b.layout(self.block))},
            (node.outputs[0], z.layout(self.block)),
            self.constants,
            rows * columns * depth * len(z.places),
            scratch=self.scratch,
        )

    def looked_up(self, name: str, part: Part, place: int) -> tuple[str, list[int]]:
        """Return the tensor in which an operand stands behind its table, and the element with which each part
        begins there."""
        begins, inputs = part.begins(self.block), self.maker.node.inputs
        if len(inputs) <= place or not inputs[place]:
            return name, begins
        first, count = min(begins), max(begins) - min(begins) + part.elements(self.block)
        self.constants[f"{name}T"] = table_entries(self.maker.constant(place))
        self.constants["O"] = blocked_parameters(of_channels(SAME, self.block), self.maker.config)
        self.scratch[f"{name}L"] = count * self.block
        names = {"A": name, "P": "O", "Z": f"{name}L", TABLE: f"{name}T"}
        task = ElementsTask(Elements.REQUANTISE, count)
        self.pieces.append(Piece(task, names, begins={"A": first}, after=LOOKED_UP))
        return f"{name}L", [begin - first for begin in begins]

    def weights(self, part: Part) -> None:
        """Let pieces make the weights V of the parts of the second operand."""
        config = self.maker.config
        source, begins = self.looked_up("B", part, 4)
        high, wide = blocks(part.rows, self.block), blocks(part.columns, self.block)
        turns, size = not self.maker.node.integer("transposed"), len(begins) * high * wide * self.block**2
        self.constants["U"] = units((1,), config)
        self.scratch["V"] = size
        if turns:
            self.constants["I"] = single_inputs(config)
            self.scratch["Q"] = size
        rows, each = RowsTask(wide, part.rows), high * wide
        for number, begin in enumerate(begins):
            names = {"B": source, "D": "Q" if turns else "V"}
            at = number * each * self.block
            self.pieces.append(Piece(rows, names, begins={"B": begin, "D": at}))
            if turns:
                turned = {"B": "Q", "D": "V", "U": "I"}
                self.pieces.append(Piece(TurnTask(high, wide), turned, begins={"B": number * each, "D": at}))


def _zeros(maker: Maker) -> str:
    zeros = maker.node.extents("zeros")
    return f"zero points {zeros[0]} and {zeros[1]}" if any(zeros) else ""


def _tables(maker: Maker) -> str:
    """Say where operands are looked up without the extension."""
    looks = any(maker.node.inputs[3:]) and not maker.config.has(Extension.TABLE)
    return f"the extension {Extension.TABLE} switched off" if looks else ""


def _whole(maker: Maker) -> str:
    """Say where parts are not of whole rows and blocks."""
    found, block = _Products(maker), maker.config.block_out
    _, right, made = found.parts
    fault = next((text for part in found.parts if (text := part.fault(block))), "")
    covered = len(made.places) * made.rows * made.columns == prod(made.shape)
    if not fault and maker.node.integer("transposed") and right.columns % block:
        return f"sums of {right.columns} products and block_in = {block}"
    return fault or ("" if covered else "a result that parts do not fill")


def _array(config: AcceleratorConfig) -> str:
    if multiplies(config):
        return ""
    return f"batch = {config.batch}, block_in = {config.block_in} and block_out = {config.block_out}"


OPERATORS: Mapping[str, Kind] = {
    "Int8Products": Kind(
        (
            operands(2),
            constants(2),
            Rule("operands of zero point 0", _zeros),
            Rule(f"the extension {Extension.TABLE}, if operands are looked up", _tables),
            Rule("heads of whole blocks of channels", _whole),
        ),
        lambda maker: _Products(maker).made(),
        (Rule(MULTIPLIES, _array),),
    ),
}
