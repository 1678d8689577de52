"""The context of emission, and intrinsics with their emitters."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from vdla.compiler.codegen.actions import Action, IndexedBuffer
from vdla.compiler.codegen.nest import Nest, element_index
from vdla.compiler.ir.calls import Call, Intrinsic
from vdla.compiler.ir.nodes import Buffer, Const, Expr, Read, Scope
from vdla.compiler.operands.address_map import Move, Operand
from vdla.hw.spec.config import AcceleratorConfig
from vdla.runtime.stream.builder import Rows, StreamBuilder


@dataclass(frozen=True)
class Emission:
    """The recorder of instructions, and the positions of buffers.

    Attributes:
        builder: records the instructions.
        operands: positions of the program's parameters in DRAM, by name. By default a parameter is the tensor
            of the same name.
        scaled: returns the recorder of STOREs that requantise by a set of parameters; None:
            `StreamBuilder.store`.
        tables: numbers of the tables on chip of STOREs into INP, by the buffer of their parameters.
        bases: first element of each on-chip buffer, by name.
    """

    builder: StreamBuilder
    operands: Mapping[str, Operand]
    scaled: Callable[[int], Move] | None = None
    tables: Mapping[str, int] = field(default_factory=dict)
    bases: dict[str, int] = field(default_factory=dict)

    @property
    def config(self) -> AcceleratorConfig:
        """The configuration of the accelerator."""
        return self.builder.config

    def operand(self, buffer: Buffer) -> Operand:
        """Return the position of a program's parameter in DRAM."""
        return self.operands.get(buffer.name) or Operand(buffer.name)

    def store(self, buffer: Buffer, parameters: int = 0, kept: str = "") -> Move:
        """Return the recorder of STOREs to a parameter of the program, or to a buffer of inputs on chip.

        Args:
            parameters: number of the set by which STOREs requantise; 0: no requantisation.
            kept: name of the buffer that holds the set.
        """
        if buffer.scope is Scope.INPUT:
            return self._fed_back(parameters, self.tables.get(kept, 0))
        if parameters and self.scaled is not None:
            record = self.scaled(parameters)
        else:
            record = partial(self.builder.store, parameters=parameters)
        return self.operand(buffer).address_map.store(record)

    def _fed_back(self, parameters: int, table: int) -> Move:
        def store(chip: int, tensor: str, element: int, rows: Rows) -> None:
            self.builder.feed_back(chip, element, rows, parameters=parameters, table=table)

        return store

    def tiles(self, call: Call) -> list[IndexedBuffer]:
        """Return the tile operands of a call, with the indices of their elements."""
        return [self._indexed(operand) for operand in call.operands if isinstance(operand, Read)]

    def _indexed(self, tile: Read) -> IndexedBuffer:
        base = self.bases.get(tile.buffer.name)
        begin = self.operand(tile.buffer).begin if base is None else base
        return IndexedBuffer(tile.buffer, element_index(tile, begin))


def immediate(operand: Expr) -> int:
    """Return the value of an operand that is a constant of the instruction."""
    assert isinstance(operand, Const), "the verifier lets only constants be immediate"
    return int(operand.value)


Emit = Callable[[Emission, Nest], Action]


@dataclass(frozen=True, slots=True)
class HardwareIntrinsic(Intrinsic):
    """An intrinsic of the accelerator.

    Attributes:
        emit: returns the action that records the instructions of a loop nest around a call.
    """

    emit: Emit = field(compare=False, repr=False)
