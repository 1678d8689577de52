"""The parts of every operator on the accelerator: tasks, tensors read and written, and rules."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from vdla.compiler.codegen.epilogue import NO_EPILOGUE, Epilogue
from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.operands.interleaved import activation_block
from vdla.compiler.rules import Rule
from vdla.compiler.tasks.base import Task
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import AluOpcode
from vdla.runtime.layout import Layout, SpaceToDepth
from vdla.runtime.windows import Windows


@dataclass(frozen=True)
class Piece:
    """A task that is all or part of an operator.

    Attributes:
        names: the operator's names for the parameters of the task's program, where they are not the program's
            own.
        begin: the element of the operator's result Z with which the task's begins.
        begins: likewise the elements of operands, by the program's parameter.
        after: what the store unit does behind it, where that is not what it does behind the operator.
    """

    task: Task
    names: Mapping[str, str] = field(default_factory=dict)
    begin: int = 0
    begins: Mapping[str, int] = field(default_factory=dict)
    after: Epilogue | None = None


@dataclass(frozen=True)
class Offloaded:
    """An operator as the accelerator executes it.

    Attributes:
        pieces: in order.
        inputs: by the pieces' parameter, the graph's value and how it must stand in DRAM.
        output: the graph's value that is their result Z, and how it stands in DRAM.
        constants: arrays by the pieces' parameter.
        macs: multiply-accumulates of the operator itself.
        after: what the store unit does behind it, for operators that follow.
        scratch: bytes by the pieces' parameter: tensors between pieces.
    """

    node: Node
    pieces: tuple[Piece, ...]
    inputs: Mapping[str, tuple[str, Layout]]
    output: tuple[str, Layout]
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    macs: int = 0
    after: Epilogue = NO_EPILOGUE
    scratch: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return (
            f"{self.node.op} {self.node.name or self.node.outputs[0]}: "
            f"{', '.join(str(piece.task) for piece in self.pieces)}"
        )


@dataclass(frozen=True)
class OnHost:
    """An operator that stays on the host, and why."""

    node: Node
    reason: str


@dataclass(frozen=True)
class View:
    """A change of shape that moves no byte in DRAM; it belongs to the launch that makes its input.

    Attributes:
        layout: how its result stands in DRAM.
    """

    node: Node
    layout: Layout


Placed = OnHost | Offloaded | View


@dataclass(frozen=True)
class Maker:
    """An operator of a graph, to be carried out by a target; `gathers`: the pixels of its input may be
    gathered (space to depth) or packed (windows)."""

    graph: Graph
    node: Node
    target: Target
    gathers: bool

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

    @property
    def block(self) -> int:
        """Channels of a block of what the accelerator makes, as it stands in DRAM."""
        return activation_block(self.config)

    def operand(
        self, place: int, block: int | None = None, how: SpaceToDepth | Windows | None = None
    ) -> tuple[str, Layout]:
        """Return an input that the accelerator reads, and how it must stand in DRAM: as what the accelerator
        makes, or in blocks of `block` channels."""
        to_depth = how if isinstance(how, SpaceToDepth) else None
        windows = how if isinstance(how, Windows) else None
        layout = Layout(self.shape(place), block or self.block, self.config.batch, to_depth, windows)
        return self.node.inputs[place], layout

    def output(self) -> tuple[str, Layout]:
        """Return the result, and how it stands in DRAM."""
        name = self.node.outputs[0]
        return name, Layout(self.graph.types[name].shape, self.block, self.config.batch)


@dataclass(frozen=True)
class Kind:
    """A kind of operator that the accelerator can execute.

    Attributes:
        rules: that hold for every operator of this kind that is carried out.
        make: returns how it is.
        configuration: rules for the configuration, beyond those for all kinds.
    """

    rules: tuple[Rule[Maker], ...]
    make: Callable[[Maker], Offloaded]
    configuration: tuple[Rule[AcceleratorConfig], ...] = ()


def constants(*places: int) -> Rule[Maker]:
    """Return the rule that these inputs, the last of which are parameters, are constants."""

    def found(maker: Maker) -> str:
        names = (maker.node.inputs[place] for place in places)
        return next(
            (f"{name} that is not constant" for name in names if name not in maker.graph.constants), ""
        )

    return Rule("constant weights and parameters" if len(places) > 1 else "constant parameters", found)


def operands(count: int | None = None) -> Rule[Maker]:
    """Return the rule that the first inputs, or all, are tensors that the accelerator can read."""

    def found(maker: Maker) -> str:
        for name in maker.node.inputs[:count]:
            type_ = maker.graph.types[name]
            if name in maker.graph.constants:
                return f"constant operand {name}"
            if type_.dtype != "int8":
                return f"operand {name} of {type_.dtype}"
            if not type_.shape:
                return f"operand {name} without dimensions"
        return ""

    return Rule("int8 operands of one dimension or more, not constant", found)


def alu(*operations: AluOpcode) -> Rule[AcceleratorConfig]:
    """Return the rule that a configuration's ALU has these operations."""

    def found(config: AcceleratorConfig) -> str:
        missing = [operation.name for operation in operations if operation not in config.alu_opcodes]
        return f"an ALU without {' and '.join(missing)}" if missing else ""

    return Rule(f"an ALU with {' and '.join(operation.name for operation in operations)}", found)


def of_channels(words: np.ndarray, channels: int) -> np.ndarray:
    """Return the parameters int64[4, 1 or channels] of each channel."""
    return np.broadcast_to(words, (len(words), channels))
