"""The context of emission, and intrinsics with the code that emits them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from vdla.compiler.codegen.actions import Action, IndexedBuffer
from vdla.compiler.codegen.nest import Nest, element_index
from vdla.compiler.ir.nodes import Buffer, Call, Intrinsic, Read
from vdla.compiler.operands.address_map import Move, Operand
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.stream.builder import StreamBuilder


@dataclass(frozen=True)
class Emission:
    """Where instructions are recorded, and where buffers lie.

    Attributes:
        operands: the program's parameters. A parameter that is missing is the tensor of its own name.
        bases: first element of each buffer on chip.
        scaled: returns what records STOREs by a set of parameters; None: `StreamBuilder.store` records them.
    """

    builder: StreamBuilder
    operands: Mapping[str, Operand]
    scaled: Callable[[int], Move] | None = None
    bases: dict[str, int] = field(default_factory=dict)

    @property
    def config(self) -> AcceleratorConfig:
        """The accelerator."""
        return self.builder.config

    def operand(self, buffer: Buffer) -> Operand:
        """Return where a parameter of the program lies in DRAM."""
        return self.operands.get(buffer.name) or Operand(buffer.name)

    def load(
        self, memory: MemoryType, buffer: Buffer, *, pad_minimum: bool = False, pad_value: int = 0
    ) -> Move:
        """Return what records LOADs of a parameter."""
        operand = self.operand(buffer)
        return operand.load(self.builder, memory, pad_minimum=pad_minimum, pad_value=pad_value)

    def store(self, buffer: Buffer, parameters: int = 0) -> Move:
        """Return what records STOREs of a parameter, requantised by a set of parameters if one is given."""
        if parameters and self.scaled is not None:
            record = self.scaled(parameters)
        else:
            record = partial(self.builder.store, parameters=parameters)
        return self.operand(buffer).address_map.store(record)

    def tiles(self, call: Call) -> list[IndexedBuffer]:
        """Return the operands of a call that are tiles, with the indices of their elements."""
        return [self._indexed(operand) for operand in call.operands if isinstance(operand, Read)]

    def _indexed(self, tile: Read) -> IndexedBuffer:
        base = self.bases.get(tile.buffer.name)
        begin = self.operand(tile.buffer).begin if base is None else base
        return IndexedBuffer(tile.buffer, element_index(tile, begin))


Emit = Callable[[Emission, Nest], Action]


@dataclass(frozen=True, slots=True)
class Instruction(Intrinsic):
    """An intrinsic of the accelerator; `emit` returns the action that records a loop nest around its call."""

    emit: Emit = field(compare=False, repr=False)
