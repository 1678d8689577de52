"""What every operator on the accelerator is made of: tasks, the tensors they read and write, and reasons why
it cannot be."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from vdla.compiler.codegen.tasks import Task
from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.graph.passes.to_integers import MOVES
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import AluOpcode
from vdla.runtime.layout import Fold, Layout

CONVERSIONS = ("DequantizeLinear", "DequantizedSoftmax", "QuantizeLinear")


@dataclass(frozen=True)
class Piece:
    """A task that is, or is a part of, an operator.

    Attributes:
        names: the operator's names for the parameters of the task's program, where they are not the program's
            own.
        begin: the element of the operator's result Z with which the task's begins.
    """

    task: Task
    names: Mapping[str, str] = field(default_factory=dict)
    begin: int = 0


@dataclass(frozen=True)
class Offloaded:
    """An operator as the accelerator carries it out.

    Attributes:
        pieces: in order.
        inputs: by the pieces' parameter, the graph's value and how it must stand in DRAM.
        output: the graph's value that is their result Z, and how it stands in DRAM.
        constants: arrays by the pieces' parameter.
        macs: multiply-accumulates of the operator itself.
    """

    node: Node
    pieces: tuple[Piece, ...]
    inputs: Mapping[str, tuple[str, Layout]]
    output: tuple[str, Layout]
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    macs: int = 0

    def __str__(self) -> str:
        return (
            f"{self.node.op} {self.node.name or self.node.outputs[0]}: "
            f"{', '.join(str(piece.task) for piece in self.pieces)}"
        )


@dataclass(frozen=True)
class Maker:
    """An operator of a graph, to be carried out by a target; `folds`: its input may be folded."""

    graph: Graph
    node: Node
    target: Target
    folds: bool

    @property
    def config(self) -> AcceleratorConfig:
        """The accelerator."""
        return self.target.config

    def shape(self, place: int) -> tuple[int, ...]:
        """Return the shape of an input, by its place."""
        return self.graph.types[self.node.inputs[place]].shape

    def constant(self, place: int) -> np.ndarray:
        """Return a constant input."""
        return self.graph.constants[self.node.inputs[place]]

    def operand(self, place: int, block: int, fold: Fold | None = None) -> tuple[str, Layout]:
        """Return an input that the accelerator reads, and how it must stand in DRAM."""
        return self.node.inputs[place], Layout(self.shape(place), block, self.config.batch, fold)

    def output(self) -> tuple[str, Layout]:
        """Return the result, and how it stands in DRAM."""
        name = self.node.outputs[0]
        return name, Layout(self.graph.types[name].shape, self.config.block_out, self.config.batch)

    # Reasons why an operator cannot be carried out.

    def without_constants(self, *places: int) -> Iterator[str]:
        """Yield a reason for each of these inputs that is no constant."""
        names = (self.node.inputs[place] for place in places)
        yield from (f"{name} is no constant" for name in names if name not in self.graph.constants)

    def without_operands(self, *places: int) -> Iterator[str]:
        """Yield a reason for each of these inputs that the accelerator cannot read."""
        for place in places:
            name = self.node.inputs[place]
            if name in self.graph.constants:
                yield f"its operand {name} is a constant"
            elif self.graph.types[name].dtype != "int8":
                yield foreign(self.graph, self.node)
            elif not self.shape(place):
                yield f"its operand {name} is a single number"

    def without_alu(self, *operations: AluOpcode) -> Iterator[str]:
        """Yield a reason where the ALU lacks one of these operations."""
        missing = [operation.name for operation in operations if operation not in self.config.alu_opcodes]
        if missing:
            yield f"the configuration's ALU has no {', '.join(missing)}"


@dataclass(frozen=True)
class Kind:
    """A kind of operator that the accelerator carries out.

    Attributes:
        condition: what it asks for, for people.
        reasons: yields why an operator of this kind cannot be carried out.
        make: returns how it is, where there is no reason.
    """

    condition: str
    reasons: Callable[[Maker], Iterator[str]]
    make: Callable[[Maker], Offloaded]


def foreign(graph: Graph, node: Node) -> str:
    """Return why an operator is none of the accelerator's."""
    if node.op in CONVERSIONS:
        return "converts between real numbers and int8"
    if any(graph.types[name].dtype == "float32" for name in (*node.inputs, *node.outputs) if name):
        return "computes with real numbers"
    return "moves single elements" if node.op in MOVES else "is not among the accelerator's operators"


def of_channels(words: np.ndarray, channels: int) -> np.ndarray:
    """Return the parameters int64[4, 1 or channels] of each channel."""
    return np.broadcast_to(words, (len(words), channels))
