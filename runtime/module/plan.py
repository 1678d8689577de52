"""The plan of a compiled network: steps on the host and on the accelerator, with their data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta

from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import VdlaError
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.device import PAGE_BYTES
from vdla.runtime.host.dtypes import UNKNOWN, TensorDtype
from vdla.runtime.layout import Layout
from vdla.runtime.stream.builder import Stream


class ModuleError(VdlaError):
    """An invalid module, or invalid inputs of a module."""


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a module's manifest holds as it stands: its declaration is the manifest's, written and read."""


LONGEST_NAME = 4096
ON_ONE_LINE = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]*\Z"
Name = Annotated[str, Meta(max_length=LONGEST_NAME, pattern=ON_ONE_LINE)]
Count = Annotated[int, Meta(ge=0, lt=1 << 62)]
Integer = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
Extent = Annotated[int, Meta(ge=UNKNOWN, lt=1 << 31)]
Extents = Annotated[tuple[Extent, ...], Meta(max_length=16)]
Attribute = Integer | float | str | tuple[Integer | float, ...]
"""No Name: msgspec 0.22 frees the pattern of a text twice that stands in a union with a list."""


def type_text(shape: Sequence[int], dtype: object) -> str:
    """Return a tensor's type as messages write it."""
    return f"{dtype}[{', '.join(map(str, shape))}]"


class Value(Record, frozen=True):
    """The type of a tensor between steps, or of an input or output.

    Attributes:
        shape: extents; `UNKNOWN` for an extent that only a run tells, which only outputs have.
        dtype: as NumPy calls it.
    """

    shape: Extents
    dtype: TensorDtype

    def __str__(self) -> str:
        return type_text(self.shape, self.dtype)


class State(Record, frozen=True):
    """What an input takes from the run before.

    Attributes:
        output: the output whose value the input has in the next run.
        scale, zero: both values stand for (value - zero) scale.
    """

    output: Name
    scale: float = 1.0
    zero: Annotated[int, Meta(ge=-128, le=127)] = 0


class HostStep(Record, frozen=True, tag_field="on", tag="host"):
    """An operator on the CPU.

    Attributes:
        name: of the operator in the network.
        op: its name in `vdla.runtime.host`.
        inputs, outputs: values; "" for an optional input that is left out.
        reason: why it does not run on the accelerator; see `vdla.runtime.module.reasons`.
        macs: its multiply-accumulates, also of what stands in its subgraphs.
        uncounted: what `macs` leaves out, as "Loop 'l' counted for one trip".
    """

    name: Name
    op: Name
    inputs: tuple[Name, ...]
    outputs: tuple[Name, ...]
    attributes: dict[Name, Attribute] = {}
    reason: Name = ""
    macs: Count = 0
    uncounted: tuple[Name, ...] = ()


class Crossing(Record, frozen=True):
    """A value of the network in the accelerator's DRAM.

    Attributes:
        value: its name in the network.
        tensor: in the accelerator's DRAM.
        layout: how it stands there.
        begin: its first byte in the tensor.
    """

    value: Name
    tensor: Name
    layout: Layout
    begin: Count = 0


class Layer(Record, frozen=True):
    """An operator on the accelerator, for reports.

    Attributes:
        label: of its instructions in the stream; "" where it costs nothing.
        bytes_read, bytes_written: that its instructions move.
        bytes_once: of its operands and its result in DRAM, each counted once, without the constants that a
            layer of the launch before it reads.
        result: what its instructions compute; None where it has none, and the bytes stand elsewhere.
        scratch: further tensors that its instructions write.
    """

    name: Name
    op: Name
    label: Name
    macs: Count
    bytes_read: Count
    bytes_written: Count
    bytes_once: Count
    result: Crossing | None = None
    scratch: tuple[Name, ...] = ()


class LaunchStep(Record, frozen=True, tag_field="on", tag="accelerator"):
    """A stream on the accelerator.

    Attributes:
        stream: its name.
        packs: what is copied in before.
        unpacks: what is copied out behind it.
        layers: what it does, in order.
    """

    stream: Name
    packs: tuple[Crossing, ...]
    unpacks: tuple[Crossing, ...]
    layers: tuple[Layer, ...]


Step = HostStep | LaunchStep

Decibels = Annotated[float, Meta(ge=-400, le=400)]
LOST_DB = 10.0
"""Signal to noise of an output, below which it has lost its meaning: noise of a third of the signal."""


class OutputNoise(Record, frozen=True):
    """What quantisation costs an output of a network on samples.

    Attributes:
        output: its name.
        decibels: signal to noise by the measure. None without noise, and without a measure.
        constant: the output is the same on all samples, and the float network's output is not.
        measure: "power" divides the power of the float output's deviations from its mean by the power of the
            differences. "equal", for integers, divides the number of elements by the number of elements that
            differ. "none": only a run tells the shape of the output, so its elements cannot be compared.
    """

    output: Name
    decibels: Decibels | None
    constant: bool = False
    measure: Literal["power", "equal", "none"] = "power"

    def reaches(self, target_db: float) -> bool:
        """Whether the output varies with the samples as it should, and has so much signal to noise."""
        return not self.constant and (self.decibels is None or self.decibels >= target_db)

    @property
    def is_lost(self) -> bool:
        """Whether the output has lost its meaning."""
        return not self.reaches(LOST_DB)


class Fidelity(Record, frozen=True):
    """How near a network that was quantised on samples is to its float network.

    Attributes:
        samples: how many it was judged on.
        outputs: in order.
        target_db: signal to noise that every output was to have; None: no layer was to stay in float for it.
        kept: layers that stay in float to reach the target.
        chosen: further layers in float, by name or by their share of the multiply-accumulates.
        before_db: least signal to noise of the outputs while none was kept; None without noise.
        costly: the layers that cost most, where an output lost its meaning.
    """

    samples: Count
    outputs: tuple[OutputNoise, ...]
    target_db: Decibels | None
    kept: tuple[Name, ...] = ()
    chosen: tuple[Name, ...] = ()
    before_db: Decibels | None = None
    costly: tuple[Name, ...] = ()


@dataclass(frozen=True)
class GraphTexts:
    """The graphs that a plan was compiled from, as the text that `vdla.compiler.graph.text` prints.

    Attributes:
        integers: graph of integer operators, which defines the results.
        target: the same graph after the passes for the target; launches read and write its values.
        constants: arrays whose hash alone is in the texts, by hash. An array has the bytes of the constant,
            and may have another shape and type.
    """

    integers: str
    target: str
    constants: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Plan:
    """A compiled network.

    Attributes:
        name: of the network.
        target: what it was compiled for.
        inputs, outputs: types by name, in order.
        steps: in order.
        streams: by name; they use tensors of `tensors` and `weights`, and have separate micro-ops.
        tensors: bytes of each tensor that the accelerator reads and writes; steps may share them in turn.
        weights: tensors that it only reads.
        constants: values of host steps that never change.
        fidelity: of a network that was quantised on samples; None of others.
        graphs: graphs that it was compiled from; None: it carries none.
        states: the inputs that take the value of an output of the run before.
    """

    name: str
    target: Target
    inputs: Mapping[str, Value]
    outputs: Mapping[str, Value]
    steps: tuple[Step, ...]
    streams: Mapping[str, Stream]
    tensors: Mapping[str, int]
    weights: Mapping[str, np.ndarray]
    constants: Mapping[str, np.ndarray]
    fidelity: Fidelity | None = None
    graphs: GraphTexts | None = None
    states: Mapping[str, State] = field(default_factory=dict)

    @property
    def given(self) -> dict[str, Value]:
        """The inputs that a run takes from outside, by name, in order."""
        return {name: value for name, value in self.inputs.items() if name not in self.states}

    @property
    def results(self) -> dict[str, Value]:
        """The outputs that are not kept for the next run, by name, in order."""
        kept = {state.output for state in self.states.values()}
        return {name: value for name, value in self.outputs.items() if name not in kept}

    @property
    def config(self) -> AcceleratorConfig:
        """The accelerator that it was compiled for."""
        return self.target.config

    @property
    def host_steps(self) -> tuple[HostStep, ...]:
        """The steps on the host."""
        return tuple(step for step in self.steps if isinstance(step, HostStep))

    @property
    def launches(self) -> tuple[LaunchStep, ...]:
        """The steps on the accelerator."""
        return tuple(step for step in self.steps if isinstance(step, LaunchStep))

    @property
    def dram_bytes(self) -> int:
        """DRAM that a device needs, with each tensor aligned to every element's size, and all to pages."""
        alignment = max(self.config.element_bytes(memory) for memory in MemoryType)
        arrays = [*self.weights.values(), *(stream.uops for stream in self.streams.values())]
        parts = [
            *(size + alignment for size in (*self.tensors.values(), *(array.nbytes for array in arrays))),
            *(stream.words.nbytes for stream in self.streams.values()),
        ]
        return PAGE_BYTES + sum(-(-size // PAGE_BYTES) * PAGE_BYTES for size in parts)


def random_inputs(inputs: Mapping[str, Value], seed: int = 0) -> dict[str, np.ndarray]:
    """Return random inputs for a timing run: normally distributed, or integers from 0 to 99.

    Equal seeds give equal inputs.
    """
    rng = np.random.default_rng(seed)
    return {
        name: (
            rng.standard_normal(value.shape)
            if value.dtype.startswith("float")
            else rng.integers(0, 100, value.shape)
        ).astype(value.dtype)
        for name, value in inputs.items()
    }
