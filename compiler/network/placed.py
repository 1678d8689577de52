"""Placed operators: on the host with the reason, or on the accelerator as tasks, operands and constants."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from vdla.compiler.codegen.epilogue import NO_EPILOGUE, Epilogue
from vdla.compiler.graph.def_use import DefUse
from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.operands.address_map import Operand
from vdla.compiler.operands.interleaved import activation_block
from vdla.compiler.rules import Rule
from vdla.compiler.tasks.base import Task
from vdla.compiler.te.operators.narrowing import blocked_parameters
from vdla.compiler.te.operators.sizes import Pooling
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import AluOpcode
from vdla.runtime.layout import Layout
from vdla.runtime.requantise import parameter_words
from vdla.runtime.windows import Windows

SAME = parameter_words(*(np.array([value]) for value in (0, 1, 0)))
"""Parameters of requantisation that keep int8 values."""


class Stored(NamedTuple):
    """A value in one of its layouts in the accelerator's DRAM."""

    value: str
    layout: Layout


@dataclass(frozen=True, slots=True)
class Run:
    """Contiguous elements of an operand.

    Attributes:
        operand: parameter of the operand.
        first: its first element of the run.
        count: number of elements, of `batch x block_out` numbers each.
    """

    operand: str
    first: int
    count: int


@dataclass(frozen=True)
class Piece:
    """A task that computes all or part of an operator.

    Attributes:
        operands: the operator's name of an operand, and its first element, by parameter of the task's
            program; a parameter that is left out is the operator's operand of the same name.
        epilogue: epilogue of this task; None: the operator's epilogue.
    """

    task: Task
    operands: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    epilogue: Epilogue | None = None


@dataclass(frozen=True)
class Offloaded:
    """An operator, or a group of operators, as the accelerator executes it.

    Attributes:
        pieces: tasks in order.
        inputs: the values that the pieces read, by parameter.
        output: the result Z.
        constants: arrays, by parameter of the pieces.
        macs: multiply-accumulates of the operator.
        epilogue: epilogue that the store unit executes, for fused operators.
        scratch: bytes of the tensors between pieces, by parameter of the pieces.
        inner: values between the operators of a group, which are stored nowhere.
        parts: the operators of a chain, as they run separately; empty if the operator is no chain, or its
            epilogue belongs to the whole chain.
        copied: the runs of which the result of a copy consists, in order; empty if the operator is no copy.
            The piece of a copy reads them as its operand A.
    """

    node: Node
    pieces: tuple[Piece, ...]
    inputs: Mapping[str, Stored]
    output: Stored
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    macs: int = 0
    epilogue: Epilogue = NO_EPILOGUE
    scratch: Mapping[str, int] = field(default_factory=dict)
    inner: tuple[str, ...] = ()
    parts: tuple["Offloaded", ...] = ()
    copied: tuple[Run, ...] = ()

    def tensor(self, parameter: str) -> str:
        """Return the name of the tensor that only this operator has for a parameter."""
        return f"{self.node.result}.{parameter}"

    def __str__(self) -> str:
        return (
            f"{self.node.op} {self.node.name or self.node.result}: "
            f"{', '.join(str(piece.task) for piece in self.pieces)}"
        )


@dataclass(frozen=True)
class OnHost:
    """An operator that runs on the host, and the reason."""

    node: Node
    reason: str


@dataclass(frozen=True)
class View:
    """A change of shape that moves no bytes in DRAM. It belongs to the launch that makes its input.

    Attributes:
        output: its result.
    """

    node: Node
    output: Stored


Placed = OnHost | Offloaded | View


class Placements:
    """The operators of a graph that have been placed so far, in order, by their first result.

    Attributes:
        numbers: position of each operator in the graph.
    """

    def __init__(self, uses: DefUse) -> None:
        self.graph, self.uses = uses.graph, uses
        self.numbers = {node.result: number for number, node in enumerate(uses.graph.nodes)}
        self._placed: dict[str, Placed] = {}

    def add(self, operator: Placed) -> None:
        """Append an operator. It replaces the operators and views that make its inner values."""
        for name in operator.inner if isinstance(operator, Offloaded) else ():
            self._placed.pop(name, None)
        self._placed[operator.node.result] = operator

    def maker(self, name: str) -> Offloaded | View | None:
        """Return the operator on the accelerator that makes a value; None if no operator on the accelerator
        does."""
        placed = self._placed.get(name)
        return None if isinstance(placed, OnHost) else placed

    def in_order(self) -> list[Placed]:
        """Return the operators. A requantisation, which the bus bounds, stands directly before the first
        operator that reads it or runs on the host. So the operators between its producer and its reader hide
        the time that its input takes to DRAM and back."""
        ordered: list[Placed] = []
        waiting: dict[str, Placed] = {}
        for name, operator in self._placed.items():
            on_host = isinstance(operator, OnHost)
            for due in [each for each in waiting if on_host or each in operator.node.inputs]:
                ordered.append(waiting.pop(due))
            if operator.node.op == "Int8Requantise" and not on_host:
                waiting[name] = operator
            else:
                ordered.append(operator)
        return [*ordered, *waiting.values()]


@dataclass(frozen=True)
class InnerValue:
    """The result of an operator that only operators of the same launch read. It may have any layout in DRAM.

    Attributes:
        maker: the operator.
        readers: the operators that read it.
        operand: returns where another value lies.
    """

    maker: Offloaded
    readers: tuple[Offloaded, ...]
    config: AcceleratorConfig
    operand: Callable[[Stored], Operand]

    @property
    def tensor(self) -> str:
        """The name of a tensor that no other value has."""
        return self.maker.tensor("Z")


LayoutRule = Callable[[InnerValue], Operand | None]
"""Returns where a value lies in a layout; None if the value cannot have the layout."""


@dataclass(frozen=True)
class OffloadCandidate:
    """An integer operator that a target may run.

    Attributes:
        packs: the host may pack its input into lines, of which the accelerator reads windows.
        pooling: a max pooling of the sums of a convolution, which is part of its task; None: there is none.
        layouts: layouts of values that operators on the accelerator compute.
    """

    graph: Graph
    node: Node
    target: Target
    packs: bool = False
    pooling: Pooling | None = None
    layouts: Mapping[str, Layout] = field(default_factory=dict)

    @property
    def config(self) -> AcceleratorConfig:
        """Configuration of the accelerator."""
        return self.target.config

    def shape(self, place: int) -> tuple[int, ...]:
        """Return the shape of input `place`."""
        return self.graph.types[self.node.inputs[place]].shape

    def constant(self, place: int) -> np.ndarray:
        """Return the constant that is input `place`."""
        return self.graph.constants[self.node.inputs[place]]

    @property
    def block(self) -> int:
        """Channels of a block of activations in DRAM."""
        return activation_block(self.config)

    def operand(self, place: int, block: int | None = None, windows: Windows | None = None) -> Stored:
        """Return input `place` in the layout in which the accelerator reads it.

        Args:
            block: channels of a block; None: as the accelerator writes activations.
            windows: windows in place of pixels; None: pixels.
        """
        layout = Layout(self.shape(place), block or self.block, self.config.batch, windows)
        return Stored(self.node.inputs[place], layout)

    def lying(self, place: int) -> Stored:
        """Return input `place` in the layout in which it lies in the accelerator's DRAM."""
        name = self.node.inputs[place]
        return Stored(name, self.layouts.get(name, self.operand(place).layout))

    @property
    def parts(self) -> int:
        """Elements of a block of activations in DRAM, of which each has `block_out` channels."""
        return self.block // self.config.block_out

    def output(self) -> Stored:
        """Return the result in the layout in which the accelerator writes it."""
        name = self.node.result
        return Stored(name, Layout(self.graph.types[name].shape, self.block, self.config.batch))

    def elements(self, layout: Layout) -> int:
        """Return how many elements of `batch x block_out` numbers a tensor has."""
        return layout.size // (self.config.batch * self.config.block_out)

    def parameters(self, channels: int | None = None, words: np.ndarray | None = None) -> np.ndarray:
        """Return parameters of requantisation as accumulators hold them.

        Args:
            channels: number of channels; None: one block, which serves all.
            words: int64[4, 1 or channels]; None: the last input.
        """
        words = self.constant(-1) if words is None else words
        whole = np.broadcast_to(words, (len(words), channels or self.config.block_out))
        return blocked_parameters(whole, self.config)

    def as_tasks(
        self,
        tasks: Task | tuple[Piece, ...],
        inputs: Mapping[str, int | Stored],
        constants: Mapping[str, np.ndarray],
        macs: int = 0,
        output: Stored | None = None,
    ) -> Offloaded:
        """Return the operator as tasks.

        Args:
            inputs: by parameter; a number stands for the input at that place, as the accelerator writes it.
            output: the result; None: as the accelerator writes it.
        """
        pieces = tasks if isinstance(tasks, tuple) else (Piece(tasks),)
        stored = {
            name: self.operand(each) if isinstance(each, int) else each for name, each in inputs.items()
        }
        return Offloaded(self.node, pieces, stored, output or self.output(), constants, macs)

    def on_elements(
        self, task: Callable[[int], Task], inputs: Mapping[str, int], constants: Mapping[str, np.ndarray]
    ) -> Offloaded:
        """Return an operator on the elements of operands of one shape. All operands and the result have the
        layout of the first operand that lies in the accelerator's DRAM.

        Args:
            task: returns the task for a number of elements.
        """
        names = {name: self.node.inputs[place] for name, place in inputs.items()}
        lying = (self.layouts[name] for name in names.values() if name in self.layouts)
        layout = next(lying, self.output().layout)
        stored = {name: Stored(value, layout) for name, value in names.items()}
        output = Stored(self.node.result, layout)
        return self.as_tasks(task(self.elements(layout)), stored, constants, output=output)


@dataclass(frozen=True)
class OperatorKind:
    """A kind of integer operator that the accelerator supports.

    Attributes:
        rules: rules for each operator of this kind.
        make: returns the operator as tasks; valid only if all rules hold.
        configuration: rules for the configuration, in addition to the rules for all kinds.
    """

    rules: tuple[Rule[OffloadCandidate], ...]
    make: Callable[[OffloadCandidate], Offloaded]
    configuration: tuple[Rule[AcceleratorConfig], ...] = ()


def constants(*places: int) -> Rule[OffloadCandidate]:
    """Return the rule that the inputs `places` are constants; the last of them is the parameters."""

    def violation(candidate: OffloadCandidate) -> str:
        names = (candidate.node.inputs[place] for place in places)
        return next(
            (f"{name} that is not constant" for name in names if name not in candidate.graph.constants), ""
        )

    return Rule("constant weights and parameters" if len(places) > 1 else "constant parameters", violation)


def operands(count: int | None = None, *, constant: bool = False) -> Rule[OffloadCandidate]:
    """Return the rule that the first `count` inputs, or all, are tensors that the accelerator can read.

    Args:
        constant: they may be constants.
    """

    def violation(candidate: OffloadCandidate) -> str:
        for name in candidate.node.inputs[:count]:
            type_ = candidate.graph.types[name]
            if name in candidate.graph.constants and not constant:
                return f"constant operand {name}"
            if type_.dtype != "int8":
                return f"operand {name} of {type_.dtype}"
            if not type_.shape:
                return f"operand {name} without dimensions"
        return ""

    which = "" if constant else ", not constant"
    return Rule(f"int8 operands of one dimension or more{which}", violation)


def alu(*operations: AluOpcode) -> Rule[AcceleratorConfig]:
    """Return the rule that a configuration's ALU supports these operations."""

    def violation(config: AcceleratorConfig) -> str:
        missing = [operation.name for operation in operations if operation not in config.alu_opcodes]
        return f"an ALU without {' and '.join(missing)}" if missing else ""

    return Rule(f"an ALU with {' and '.join(operation.name for operation in operations)}", violation)
