"""What every operator on the accelerator is made of: loop programs, the tensors they read and write, and reasons why it cannot be."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.graph.passes.to_integers import MOVES
from vdla.compiler.ir.nodes import Func, IrError
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import AluOpcode
from vdla.runtime.layout import Fold, Layout

CONVERSIONS = ("DequantizeLinear", "DequantizedSoftmax", "QuantizeLinear")
THREADS = (2, 1)  # virtual threads, in order of preference


class OffloadError(Exception):
    """An operator cannot run on the accelerator; the text is the reason, for the report."""


@dataclass(frozen=True)
class Program:
    """A loop program that is, or is a part of, an operator.

    Attributes:
        names: the operator's names for its parameters, where they are not the program's own.
        begin: the element of the operator's result Z with which its own begins.
    """

    func: Func
    names: Mapping[str, str] = field(default_factory=dict)
    begin: int = 0


@dataclass(frozen=True)
class Offloaded:
    """An operator as the accelerator carries it out.

    Attributes:
        programs: in order.
        inputs: by the programs' parameter, the graph's value and how it must stand in DRAM.
        output: the graph's value that is their result Z, and how it stands in DRAM.
        constants: arrays by the programs' parameter.
        macs: multiply-accumulates of the operator itself.
    """

    node: Node
    programs: tuple[Program, ...]
    inputs: Mapping[str, tuple[str, Layout]]
    output: tuple[str, Layout]
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    macs: int = 0


@dataclass(frozen=True)
class Maker:
    """An operator of a graph, to be carried out by a configuration; `folds`: its input may be folded."""

    graph: Graph
    node: Node
    config: AcceleratorConfig
    folds: bool

    def shape(self, place: int) -> tuple[int, ...]:
        """Return the shape of an input, by its place."""
        return self.graph.types[self.node.inputs[place]].shape

    def constant(self, place: int) -> np.ndarray:
        """Return a constant input; raise OffloadError where it is none."""
        name = self.node.inputs[place]
        if name not in self.graph.constants:
            raise OffloadError(f"{name} is no constant")
        return self.graph.constants[name]

    def operand(self, place: int, block: int, fold: Fold | None = None) -> tuple[str, Layout]:
        """Return an input that the accelerator reads, and how it must stand in DRAM; raise OffloadError where it cannot."""
        name = self.node.inputs[place]
        if name in self.graph.constants:
            raise OffloadError(f"its operand {name} is a constant")
        if self.graph.types[name].dtype != "int8":
            raise OffloadError(foreign(self.graph, self.node))
        if not self.shape(place):
            raise OffloadError(f"its operand {name} is a single number")
        return name, Layout(self.shape(place), block, self.config.batch, fold)

    def output(self) -> tuple[str, Layout]:
        """Return the result, and how it stands in DRAM."""
        name = self.node.outputs[0]
        return name, Layout(self.graph.types[name].shape, self.config.block_out, self.config.batch)

    def needs(self, *operations: AluOpcode) -> None:
        """Raise OffloadError unless the ALU has these operations."""
        missing = [operation.name for operation in operations if operation not in self.config.alu_opcodes]
        if missing:
            raise OffloadError(f"the configuration's ALU has no {', '.join(missing)}")


def foreign(graph: Graph, node: Node) -> str:
    """Return why an operator is none of the accelerator's."""
    if node.op in CONVERSIONS:
        return "converts between real numbers and int8"
    if any(graph.types[name].dtype == "float32" for name in (*node.inputs, *node.outputs) if name):
        return "computes with real numbers"
    return "moves single elements" if node.op in MOVES else "is not among the accelerator's operators"


def scheduled(schedule: Callable[[int], Func]) -> Func:
    """Return the program with the most virtual threads that fit."""
    problems = []
    for threads in THREADS:
        try:
            return schedule(threads)
        except IrError as error:
            problems.append(error)
    raise problems[-1]


def of_channels(words: np.ndarray, channels: int) -> np.ndarray:
    """Return the parameters int64[4, 1 or channels] of each channel."""
    return np.broadcast_to(words, (len(words), channels))
