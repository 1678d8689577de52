"""The context of emission, and intrinsics with the code that emits them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from vdla.compiler.codegen.actions import Action, Operand
from vdla.compiler.codegen.interleaved import Interleaved, interleaving
from vdla.compiler.codegen.nest import Nest, element_index
from vdla.compiler.codegen.segments import Segment, loading
from vdla.compiler.ir.nodes import Buffer, Call, Intrinsic, Read
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.stream.builder import Rows, StreamBuilder
from vdla.runtime.windows import Windows

Move = Callable[[int, str, int, Rows], None]  # records a transfer: element on chip, tensor, its element, rows


@dataclass(frozen=True)
class Emission:
    """Where instructions are recorded, and where buffers stand.

    Attributes:
        tensors: what the stream calls a program's parameters, where that is not their own name.
        bases: the first element of each buffer in its memory, or in its tensor, where that is not 0.
        scaled: returns what records STOREs by a set of parameters; None: they are recorded as they are.
        windows: how tensors are read whose pixels are packed, by the program's parameter.
        segments: where tensors stand that several others hold, by the program's parameter.
        alternating: how tensors stand whose planes alternate, by the program's parameter.
    """

    builder: StreamBuilder
    tensors: Mapping[str, str]
    bases: dict[str, int]
    scaled: Callable[[int], Move] | None = None
    windows: Mapping[str, Windows] = field(default_factory=dict)
    segments: Mapping[str, Sequence[Segment]] = field(default_factory=dict)
    alternating: Mapping[str, Interleaved] = field(default_factory=dict)

    @property
    def config(self) -> AcceleratorConfig:
        """The accelerator."""
        return self.builder.config

    def tensor(self, buffer: Buffer) -> str:
        """Return what the stream calls a buffer in DRAM."""
        return self.tensors.get(buffer.name, buffer.name)

    def load(
        self, memory: MemoryType, buffer: Buffer, *, pad_minimum: bool = False, pad_value: int = 0
    ) -> Move:
        """Return what records LOADs from a buffer in DRAM, or GATHERs of its windows."""
        if buffer.name in self.windows:
            return partial(self.builder.gather, self.windows[buffer.name])
        record = partial(self.builder.load, memory, pad_minimum=pad_minimum, pad_value=pad_value)
        if buffer.name in self.segments:
            return loading(record, self.segments[buffer.name])
        return interleaving(memory, self.builder, record, self.alternating.get(buffer.name))

    def store(self, buffer: Buffer, parameters: int = 0) -> Move:
        """Return what records STOREs to a buffer in DRAM, requantised where a set of parameters is given."""
        if parameters and self.scaled is not None:
            record = self.scaled(parameters)
        else:
            record = partial(self.builder.store, parameters=parameters)
        return interleaving(MemoryType.OUT, self.builder, record, self.alternating.get(buffer.name))

    def tiles(self, call: Call) -> list[Operand]:
        """Return the operands of a call that are tiles."""
        return [self._operand(operand) for operand in call.operands if isinstance(operand, Read)]

    def _operand(self, operand: Read) -> Operand:
        return Operand(operand.buffer, element_index(operand, self.bases.get(operand.buffer.name, 0)))


Emit = Callable[[Emission, Nest], Action]


@dataclass(frozen=True, slots=True)
class Instruction(Intrinsic):
    """An intrinsic of the accelerator; `emit` returns the action that records a loop nest around its call."""

    emit: Emit = field(compare=False, repr=False)
