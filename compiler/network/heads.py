"""Products of two activations on the accelerator: the second operand becomes weights while the network
runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

import numpy as np

from vdla.compiler.codegen.blocked_layout import blocked_parameters
from vdla.compiler.codegen.epilogue import NO_EPILOGUE, TABLE, Epilogue, table_entries
from vdla.compiler.graph.integers import signed_bytes
from vdla.compiler.network.elements import SAME
from vdla.compiler.network.maker import Kind, Maker, Offloaded, Piece, constants, of_channels, operands
from vdla.compiler.network.planes import MULTIPLIES, multiplies
from vdla.compiler.rules import Rule, enabling
from vdla.compiler.tasks.activation_weights import RowsTask, TurnTask
from vdla.compiler.tasks.constant_operands import one_hot_inputs, scalar_weights
from vdla.compiler.tasks.convolution import ConvolutionTask
from vdla.compiler.tasks.elementwise import Elements, ElementsTask
from vdla.compiler.te.operators.sizes import blocks, matrix_product
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.host.int8 import BYTES
from vdla.runtime.layout import IMAGE_RANK, Layout

SQUARE = f"{MULTIPLIES}, as STOREs of block_out numbers make its weights, which have rows of block_in"
LOOKED_UP = Epilogue(table=1)
Tables = tuple[np.ndarray | None, ...]


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
        """The channels of a block."""
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

    @cached_property
    def tables(self) -> tuple[Tables, Tables]:
        """The tables that both operands are looked up in; several where a value less the zero point takes
        more than a byte: then it is their sum."""
        names = (*self.maker.node.inputs[3:], "", "")
        zeros = self.maker.node.extents("zeros")
        first, second = (
            _bytes(self.maker.graph.constants.get(name), zero)
            for name, zero in zip(names[:2], zeros, strict=True)
        )
        return first, second

    @property
    def repeats(self) -> int:
        """How many products of bytes make one of two operands."""
        first, second = self.tables
        return len(first) * len(second)

    def made(self) -> Offloaded:
        """Return the operator."""
        maker, (a, b, z), config = self.maker, self.parts, self.maker.config
        node, (rows, columns, depth) = maker.node, maker.node.extents("size")
        words = of_channels(maker.constant(2), columns)
        self.constants["P"] = blocked_parameters(words, config)
        left, begins = self.inputs(a)
        self.weights(b)
        deep = blocks(depth, self.block) * self.repeats
        whole = depth if self.repeats == 1 else deep * self.block
        task = ConvolutionTask(matrix_product(rows, columns, whole, config))
        each = blocks(columns, self.block) * deep
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

    def inputs(self, part: Part) -> tuple[str, list[int]]:
        """Return the tensor in which the first operand stands behind its tables, and the element with which
        each part begins there: its bytes one behind another, as often as the second operand has bytes."""
        begins, own = part.begins(self.block), self.tables[0]
        if self.repeats == 1 and own[0] is None:
            return "A", begins
        size, found = part.elements(self.block), list[int]()
        self.scratch["AL"] = len(begins) * self.repeats * size * self.block
        for begin in begins:
            found.append(len(found) * self.repeats * size)
            for place in range(self.repeats):
                table = own[place % len(own)]
                self.look_up("A", begin, "AL", found[-1] + place * size, size, table)
        return "AL", found

    def look_up(
        self, source: str, begin: int, to: str, at: int, count: int, table: np.ndarray | None
    ) -> None:
        """Let a piece copy elements from one place to another, through a table perhaps."""
        self.constants["O"] = blocked_parameters(of_channels(SAME, self.block), self.maker.config)
        names = {"A": source, "P": "O", "Z": to}
        if table is not None:
            name = f"T{len(self.constants)}"
            self.constants[name] = table_entries(table)
            names[TABLE] = name
        task = ElementsTask(Elements.REQUANTISE, count)
        after = NO_EPILOGUE if table is None else LOOKED_UP
        self.pieces.append(Piece(task, names, at, {"A": begin}, after))

    def weights(self, part: Part) -> None:
        """Let pieces make the weights V of the parts of the second operand: byte by byte, each as often as
        the first operand has bytes."""
        begins, own = part.begins(self.block), self.tables[1]
        high, wide = blocks(part.rows, self.block), blocks(part.columns, self.block)
        turns = not self.maker.node.integer("transposed")
        self.constants["U"] = scalar_weights((1,), self.maker.config)
        self.scratch["V"] = len(begins) * self.repeats * high * wide * self.block**2
        if turns:
            self.constants["I"] = one_hot_inputs(self.maker.config)
            self.scratch["Q"] = len(begins) * len(own) * high * wide * self.block**2
        first, count = min(begins), max(begins) - min(begins) + part.elements(self.block)
        for byte, table in enumerate(own):
            source, less = "B", 0
            if table is not None:
                source, less = f"B{byte}", first
                self.scratch[source] = count * self.block
                self.look_up("B", first, source, 0, count, table)
            for number, begin in enumerate(begins):
                self.weigh(part, source, begin - less, number, byte)

    def weigh(self, part: Part, source: str, begin: int, number: int, byte: int) -> None:
        """Let pieces make weights of one byte of a part, the first element of which is given."""
        high, wide = blocks(part.rows, self.block), blocks(part.columns, self.block)
        turns, (others, own) = not self.maker.node.integer("transposed"), self.tables
        deep, size = high if turns else wide, high * wide
        for copy in range(len(others)):
            at = (number * self.repeats * size + (byte * len(others) + copy) * deep) * self.block
            if not turns:
                rows = RowsTask(wide, part.rows, self.repeats * deep)
                self.pieces.append(Piece(rows, {"B": source, "D": "V"}, begins={"B": begin, "D": at}))
                continue
            held = number * len(own) + byte
            if not copy:
                rows, there = RowsTask(wide, part.rows), held * size * self.block
                self.pieces.append(Piece(rows, {"B": source, "D": "Q"}, begins={"B": begin, "D": there}))
            turn = TurnTask(high, wide, self.repeats * deep)
            names = {"B": "Q", "D": "V", "U": "I"}
            self.pieces.append(Piece(turn, names, begins={"B": held * size, "D": at}))


def _bytes(table: np.ndarray | None, zero: int) -> Tables:
    """Return tables whose sum is what a table gives, less a zero point; None for what stays as it is."""
    if table is None and not zero:
        return (None,)
    values = BYTES if table is None else table
    return tuple(signed_bytes(values.astype(np.int64) - zero))


def _tables(maker: Maker) -> str:
    """Say where values are looked up, or less a zero point, without the extension."""
    if maker.config.has(Extension.TABLE):
        return ""
    zeros = maker.node.extents("zeros")
    if any(zeros):
        return f"zero points {zeros[0]} and {zeros[1]}"
    return "operands that are looked up" if any(maker.node.inputs[3:]) else ""


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
            Rule(
                f"operands of zero point 0 as they are, or the extension {Extension.TABLE}",
                _tables,
                enabling(Extension.TABLE),
            ),
            Rule("heads of whole blocks of channels", _whole),
        ),
        lambda maker: _Products(maker).made(),
        (Rule(SQUARE, _array),),
    ),
}
