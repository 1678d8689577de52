"""Matrix products of two activations on the accelerator: the second operand becomes weights at run time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

import numpy as np

from vdla.compiler.codegen.epilogue import NO_EPILOGUE, TABLE, Epilogue, table_entries
from vdla.compiler.graph.integer_forms.lowering import IntegerForm, Lowering
from vdla.compiler.graph.integer_forms.rules import MATRICES, ONE_FACTOR, PAIR_SUMS, RATIOS
from vdla.compiler.graph.integer_forms.site import PAIRED, Site
from vdla.compiler.graph.integers import scaling, signed_bytes
from vdla.compiler.graph.nodes import Attribute
from vdla.compiler.lower.channelwise import multiplies
from vdla.compiler.lower.normalisation import without_columns
from vdla.compiler.network.placed import (
    SAME,
    OffloadCandidate,
    Offloaded,
    OperatorKind,
    Piece,
    Stored,
    constants,
    operands,
)
from vdla.compiler.rules import Rule, enabling
from vdla.compiler.tasks.base import Task
from vdla.compiler.tasks.convolution import ConvolutionTask
from vdla.compiler.tasks.elementwise import Elements, ElementsTask
from vdla.compiler.tasks.normalising import ProductSoftmaxTask
from vdla.compiler.tasks.program_text import one_hot_inputs, scalar_weights
from vdla.compiler.tasks.rearranging import RowsTask, TurnTask
from vdla.compiler.te.operators.sizes import blocks, matrix_product
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.host.int8 import BYTES
from vdla.runtime.layout import IMAGE_RANK, Layout

SQUARE = (
    "a batch of 1 and block_in = block_out, as STOREs of block_out numbers make its weights, which have rows "
    "of block_in"
)
Tables = tuple[np.ndarray | None, ...]


@dataclass(frozen=True)
class MatrixParts:
    """The parts of a matrix that products read or write, one for each product.

    Attributes:
        shape: shape of the tensor; its last dimension is the columns of the matrix.
        places: first row and column of each part.
        rows, columns: extents of a part.
    """

    shape: tuple[int, ...]
    places: tuple[tuple[int, int], ...]
    rows: int
    columns: int

    @property
    def height(self) -> int:
        """Rows of the matrix."""
        return prod(self.shape[:-1])

    def fault(self, block: int) -> str:
        """Describe a part that does not consist of all rows of a stacked matrix and whole blocks of columns;
        "" if there is no such part."""
        for row, column in self.places:
            if self.height % self.rows or row % self.rows:
                return f"{self.rows} rows from row {row} on of {self.height}"
            if column % block or (self.columns % block and column + self.columns != self.shape[-1]):
                return f"columns {column} to {column + self.columns} and block_out = {block}"
        return ""

    def layout(self, block: int) -> Layout:
        """Return the layout of the tensor in DRAM: a stack of matrices, each with the rows of a part."""
        stack = self.height // self.rows
        plain = stack == 1 and len(self.shape) != IMAGE_RANK
        return Layout(self.shape, block, 1, stack=0 if plain else stack)

    def begins(self, block: int) -> list[int]:
        """Return the first element of each part in the tensor."""
        wide = blocks(self.shape[-1], block)
        return [(row // self.rows * wide + column // block) * self.rows for row, column in self.places]

    def elements(self, block: int) -> int:
        """Return how many elements of `block` numbers a part has."""
        return blocks(self.columns, block) * self.rows


def _divided(places: Sequence[tuple[int, int]], rows: int, whole: int) -> tuple[tuple[int, int], ...]:
    """Return the first row and column of each `whole` rows of parts of `rows` rows."""
    return tuple((row + more, column) for row, column in places for more in range(0, rows, whole))


@dataclass(frozen=True)
class _ProductsBuilder:
    """Collects the constants, scratch tensors and pieces of a product of activations.

    Attributes:
        constants: arrays by the pieces' parameter.
        scratch: bytes of the tensors between pieces, by the pieces' parameter.
        pieces: tasks in order.
    """

    candidate: OffloadCandidate
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    scratch: dict[str, int] = field(default_factory=dict)
    pieces: list[Piece] = field(default_factory=list)

    @property
    def block(self) -> int:
        """Channels of a block."""
        return self.candidate.config.block_out

    @cached_property
    def parts(self) -> tuple[MatrixParts, MatrixParts, MatrixParts]:
        """The parts of the operands and of the result. Products are divided so that their rows are rows of a
        matrix in which the first operand lies."""
        node, (rows, columns, depth) = self.candidate.node, self.candidate.node.extents("size")
        right = (columns, depth) if node.integer("transposed") else (depth, columns)
        shapes = (
            self.candidate.shape(0),
            self.candidate.shape(1),
            self.candidate.graph.types[node.result].shape,
        )
        places = (
            tuple(zip(corners[::2], corners[1::2], strict=True))
            for corners in map(node.extents, ("a_places", "b_places", "places"))
        )
        whole = self._rows_together(rows)
        firsts, seconds, results = places
        a, result = (
            MatrixParts(shape, _divided(corners, rows, whole), whole, size)
            for shape, corners, size in ((shapes[0], firsts, depth), (shapes[2], results, columns))
        )
        seconds = tuple(place for place in seconds for _ in range(rows // whole))
        return a, MatrixParts(shapes[1], seconds, *right), result

    def _rows_together(self, rows: int) -> int:
        """Return how many rows of a product lie in one matrix, in the layout in which the first operand
        lies."""
        layout = self.candidate.lying(0).layout
        if layout.stack < 2 or layout.interleaved:
            return rows
        lying: int = prod(layout.shape[:-1]) // layout.stack
        return lying if rows % lying == 0 else rows

    @cached_property
    def tables(self) -> tuple[Tables, Tables]:
        """The lookup tables of both operands. A value less its zero point that exceeds int8 is the sum of
        several tables."""
        names = (*self.candidate.node.inputs[3:], "", "")
        zeros = self.candidate.node.extents("zeros")
        first, second = (
            _byte_tables(self.candidate.graph.constants.get(name), zero)
            for name, zero in zip(names[:2], zeros, strict=True)
        )
        return first, second

    @property
    def repeats(self) -> int:
        """How many int8 products make up a product of both operands."""
        first, second = self.tables
        return len(first) * len(second)

    def operator(self) -> Offloaded:
        """Return the offloaded operator."""
        candidate, (a, b, z), config = self.candidate, self.parts, self.candidate.config
        node, rows, columns, depth = candidate.node, a.rows, z.columns, a.columns
        self.constants["P"] = candidate.parameters(columns, candidate.constant(2))
        left, firsts = self.left_operand(a)
        weights = replace(b, places=tuple(dict.fromkeys(b.places)))  # which several products may read
        self.add_weights(weights)
        deep = blocks(depth, self.block) * self.repeats
        whole = depth if self.repeats == 1 else deep * self.block
        task = ConvolutionTask(matrix_product(rows, columns, whole, config))
        each = blocks(columns, self.block) * deep
        for begin, place, end in zip(firsts, b.places, z.begins(self.block), strict=True):
            self.add(task, X=(left, begin), W=("V", weights.places.index(place) * each), Z=("Z", end))
        return Offloaded(
            node,
            tuple(self.pieces),
            {
                name: Stored(value, part.layout(self.block))
                for name, value, part in zip("AB", node.inputs, (a, b), strict=False)
            },
            Stored(node.result, z.layout(self.block)),
            self.constants,
            rows * columns * depth * len(z.places),
            scratch=self.scratch,
        )

    def add(self, task: Task, epilogue: Epilogue | None = None, **operands: tuple[str, int]) -> None:
        """Add a piece; see `Piece`."""
        self.pieces.append(Piece(task, operands, epilogue))

    def left_operand(self, part: MatrixParts) -> tuple[str, list[int]]:
        """Return the tensor of the first operand after its tables, and the first element of each part.

        The tables' results are concatenated, and repeated for each table of the second operand.
        """
        begins, tables = part.begins(self.block), self.tables[0]
        if self.repeats == 1 and tables[0] is None:
            return "A", begins
        size, placed = part.elements(self.block), list[int]()
        self.scratch["AL"] = len(begins) * self.repeats * size * self.block
        for begin in begins:
            placed.append(len(placed) * self.repeats * size)
            for place in range(self.repeats):
                table = tables[place % len(tables)]
                self.add_copy("A", begin, "AL", placed[-1] + place * size, size, table)
        return "AL", placed

    def add_copy(
        self, source: str, begin: int, to: str, at: int, count: int, table: np.ndarray | None
    ) -> None:
        """Add a piece that copies `count` elements from element `begin` of `source` to element `at` of `to`,
        through `table` if it is given."""
        self.constants["O"] = self.candidate.parameters(words=SAME)
        operands = {"A": (source, begin), "P": ("O", 0), "Z": (to, at)}
        if table is not None:
            name = f"T{len(self.constants)}"
            self.constants[name] = table_entries(table)
            operands[TABLE] = name, 0
        self.add(ElementsTask(Elements.REQUANTISE, count), Epilogue(table=int(table is not None)), **operands)

    def add_weights(self, part: MatrixParts) -> None:
        """Add the pieces that make the weights V from the second operand. The weights of each of its tables
        are repeated for each table of the first operand."""
        begins, tables = part.begins(self.block), self.tables[1]
        high, wide = blocks(part.rows, self.block), blocks(part.columns, self.block)
        turns = not self.candidate.node.integer("transposed")
        self.constants["U"] = scalar_weights((1,), self.candidate.config)
        self.scratch["V"] = len(begins) * self.repeats * high * wide * self.block**2
        if turns:
            self.constants["I"] = one_hot_inputs(self.candidate.config)
            self.scratch["Q"] = len(begins) * len(tables) * high * wide * self.block**2
        first, count = min(begins), max(begins) - min(begins) + part.elements(self.block)
        for byte, table in enumerate(tables):
            source, less = "B", 0
            if table is not None:
                source, less = f"B{byte}", first
                self.scratch[source] = count * self.block
                self.add_copy("B", first, source, 0, count, table)
            for number, begin in enumerate(begins):
                self.add_weights_of_byte(part, source, begin - less, number, byte)

    def add_weights_of_byte(self, part: MatrixParts, source: str, begin: int, number: int, byte: int) -> None:
        """Add the pieces that make weights from a part after one table.

        Args:
            begin: the part's first element in `source`.
            number: index of the part.
            byte: index of the table.
        """
        high, wide = blocks(part.rows, self.block), blocks(part.columns, self.block)
        turns, (first_tables, tables) = not self.candidate.node.integer("transposed"), self.tables
        deep, size = high if turns else wide, high * wide
        for copy in range(len(first_tables)):
            at = (number * self.repeats * size + (byte * len(first_tables) + copy) * deep) * self.block
            if not turns:
                rows = RowsTask(wide, part.rows, self.repeats * deep)
                self.add(rows, B=(source, begin), D=("V", at))
                continue
            held = number * len(tables) + byte
            if not copy:
                rows = RowsTask(wide, part.rows)
                self.add(rows, B=(source, begin), D=("Q", held * size * self.block))
            turn = TurnTask(high, wide, self.repeats * deep)
            self.add(turn, B=("Q", held * size), D=("V", at), U=("I", 0))


def with_softmax(products: Offloaded, constants: Mapping[str, np.ndarray]) -> Offloaded | None:
    """Return products of activations that make the softmax of their rows; None if a row of the result is not
    a row of one product.

    Args:
        constants: those of `constants_of_softmax`.
    """
    _, columns, _ = products.node.extents("size")
    layout, parameters = products.output.layout, products.constants["P"]
    if columns != layout.shape[-1]:
        return None
    rest = columns % layout.block

    def with_epilogue(piece: Piece) -> Piece:
        if not isinstance(piece.task, ConvolutionTask):
            return replace(piece, epilogue=piece.epilogue or NO_EPILOGUE)
        depth = blocks(piece.task.size.channels, layout.block)
        rows = prod(piece.task.size.out_size)
        task = ProductSoftmaxTask(rows, depth, len(parameters), rest > 0)
        return replace(piece, task=task, epilogue=task.epilogue)

    pieces = tuple(map(with_epilogue, products.pieces))
    return replace(
        products,
        pieces=pieces,
        constants={**products.constants, "P": without_columns(parameters, rest), **constants},
        epilogue=pieces[-1].epilogue or NO_EPILOGUE,
    )


def _byte_tables(table: np.ndarray | None, zero: int) -> Tables:
    """Return int8 tables whose sum is `table` less a zero point; a single None if values stay unchanged."""
    if table is None and not zero:
        return (None,)
    values = BYTES if table is None else table
    return tuple(signed_bytes(values.astype(np.int64) - zero))


def _tables(candidate: OffloadCandidate) -> str:
    """Describe tables or zero points that need the extension; "" if the rule holds."""
    if candidate.config.has(Extension.TABLE):
        return ""
    zeros = candidate.node.extents("zeros")
    if any(zeros):
        return f"zero points {zeros[0]} and {zeros[1]}"
    return "operands that are looked up" if any(candidate.node.inputs[3:]) else ""


def _partial_blocks(candidate: OffloadCandidate) -> str:
    """Describe parts that are not whole rows and blocks; "" if the rule holds."""
    products, block = _ProductsBuilder(candidate), candidate.config.block_out
    _, right, result = products.parts
    fault = next((text for part in products.parts if (text := part.fault(block))), "")
    covered = len(result.places) * result.rows * result.columns == prod(result.shape)
    if not fault and candidate.node.integer("transposed") and right.columns % block:
        return f"sums of {right.columns} products and block_in = {block}"
    return fault or ("" if covered else "a result that parts do not fill")


def _array(config: AcceleratorConfig) -> str:
    if multiplies(config):
        return ""
    return f"batch = {config.batch}, block_in = {config.block_in} and block_out = {config.block_out}"


def _integer_products(lowering: Lowering, site: Site) -> None:
    """Add the products of two stacks of matrices."""
    a, b = site.operands
    left, right = (lowering.graph.types[part.name].shape for part in site.operands)
    stacks = np.broadcast_shapes(left[:-2], right[:-2])
    rows, depth, columns = left[-2], left[-1], right[-1]
    attributes: dict[str, Attribute] = {
        "a_places": _matrix_corners(left, stacks),
        "b_places": _matrix_corners(right, stacks),
        "places": _matrix_corners((*stacks, rows, columns), stacks),
        "shape": (*stacks, rows, columns),
        "size": (rows, columns, depth),
        "transposed": 0,
        "zeros": (a.quantisation.zero, b.quantisation.zero),
    }
    lowering.add_binary("Int8Products", site, scaling(site.ratios, 0, site.result), attributes)


def _matrix_corners(shape: tuple[int, ...], stacks: tuple[int, ...]) -> tuple[int, ...]:
    """Return the first row and first column of each matrix of a tensor whose leading dimensions are broadcast
    to `stacks`."""
    leading = shape[:-2]
    numbers = np.broadcast_to(np.arange(prod(leading)).reshape(leading), stacks).reshape(-1)
    return tuple(place for number in numbers.tolist() for place in (number * shape[-2], 0))


FORMS = {PAIRED: IntegerForm(_integer_products, (MATRICES,), (ONE_FACTOR, PAIR_SUMS, RATIOS))}
OPERATORS: Mapping[str, OperatorKind] = {
    "Int8Products": OperatorKind(
        (
            operands(2),
            constants(2),
            Rule(
                f"operands of zero point 0 as they are, or the extension {Extension.TABLE}",
                _tables,
                enabling(Extension.TABLE),
            ),
            Rule("heads of whole blocks of channels", _partial_blocks),
        ),
        lambda candidate: _ProductsBuilder(candidate).operator(),
        (Rule(SQUARE, _array),),
    ),
}
