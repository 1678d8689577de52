"""The accelerator configuration: the only record that hardware, simulators and compiler derive from."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from enum import Enum
from functools import cached_property
from math import prod
from typing import Any, TypeVar

from vdla.hw.spec import encoding, isa
from vdla.hw.spec.consistency import BUFFERS, LEAST_BURST_BYTES, MOST_BURST_BYTES, check_consistency
from vdla.hw.spec.errors import ConfigError
from vdla.hw.spec.memories import MEMORIES, scratchpad_of, scratchpads_of
from vdla.hw.spec.numerics import BYTE_BITS, ENTRIES_OF_ELEMENT, wrap
from vdla.hw.spec.showing import shown
from vdla.hw.spec.timing import MOST_GEMM_STAGES
from vdla.hw.spec.vocabulary import (
    DRAM_BASE_BITS,
    LEAST_WEIGHT_BITS,
    VTA_ALU,
    AluOpcode,
    Extension,
    MemoryType,
)
from vdla.hw.spec.window import PAIR, TAPS, Window, largest_window

Member = TypeVar("Member", bound=Enum)

LEAST_BLOCKS = {Extension.DEPTHWISE: 8, Extension.FEEDBACK: 1, Extension.DEPTHWISE_ROWS: 8}
"""Extensions that have no effect unless `block_in` and `block_out` are equal, and the least such block.

The block of DEPTHWISE is the least power of two that holds the inputs of a sum: 3 taps of 2 channels. The
block of DEPTHWISE_ROWS is the least that holds 2 rows of 3 taps; with `packed`, it is twice as large. With
FEEDBACK, an element of OUT becomes an element of INP, so both must have the same shape.
"""


NORMALISABLE = 1, 8, 32
"""`batch`, `inp_bits` and `acc_bits` with which NORMALISE has an effect: an element is a part of one row."""

LEAST_BANKED = 8
"""Elements of INP with which DEPTHWISE_ROWS has an effect: at least 2 in each of 4 banks."""


def _parameter(
    default: int,
    help_text: str,
    *,
    low: int = 0,
    high: int = 0,
    choices: tuple[int, ...] = (),
    power: bool = False,
) -> int:
    """Declare a parameter: its default, its meaning, and the values it may take."""
    limits = {"help": help_text, "low": low, "high": high, "choices": choices, "power": power}
    return field(default=default, metadata=limits)


@dataclass(frozen=True)
class AcceleratorConfig:
    """The parameters of an accelerator.

    Sizes are in bytes, widths in bits. `batch`, `block_in` and `block_out` are the GEMM core's M, K and N:
    one micro-op multiplies `batch x block_in` inputs with `block_out x block_in` weights.

    Raises:
        ConfigError: a value is out of range, or values do not fit together.
    """

    name: str = field(default="custom", metadata={"help": "label; does not take part in the digest"})
    batch: int = _parameter(1, "rows of the GEMM core (M)", low=1, high=64, power=True)
    block_in: int = _parameter(16, "reduction width of the GEMM core (K)", low=1, high=256, power=True)
    block_out: int = _parameter(16, "columns of the GEMM core (N)", low=1, high=256, power=True)
    inp_bits: int = _parameter(8, "width of an input and of an output", choices=(2, 4, 8))
    wgt_bits: int = _parameter(8, "width of a weight", choices=(2, 4, 8))
    acc_bits: int = _parameter(32, "width of an accumulator", choices=(16, 32))
    uop_buffer_bytes: int = _parameter(32 << 10, "micro-op memory", low=16, high=1 << 20, power=True)
    inp_buffer_bytes: int = _parameter(32 << 10, "input scratchpad", low=2, high=1 << 30, power=True)
    wgt_buffer_bytes: int = _parameter(256 << 10, "weight scratchpad", low=2, high=1 << 30, power=True)
    acc_buffer_bytes: int = _parameter(128 << 10, "accumulator scratchpad", low=2, high=1 << 30, power=True)
    table_buffer_bytes: int = _parameter(
        2 << 10, "memory of tables of 256 bytes, with TABLE", low=512, high=4 << 10, power=True
    )
    res_buffer_bytes: int = _parameter(
        32 << 10, "residual scratchpad, with RESIDUAL", low=2, high=64 << 10, power=True
    )
    load_queue_depth: int = _parameter(64, "instructions waiting for the load unit", low=2, high=4096)
    compute_queue_depth: int = _parameter(64, "instructions waiting for the compute unit", low=2, high=4096)
    store_queue_depth: int = _parameter(64, "instructions waiting for the store unit", low=2, high=4096)
    token_depth: int = _parameter(255, "largest count of a dependency-token counter", low=1, high=65535)
    bus_bits: int = _parameter(64, "width of the memory data path", low=64, high=512, power=True)
    burst_bytes: int = _parameter(
        256,
        "longest memory burst; bursts end at its multiples",
        low=LEAST_BURST_BYTES,
        high=MOST_BURST_BYTES,
        power=True,
    )
    max_requests: int = _parameter(16, "reads in flight at once", low=1, high=256)
    axi_address_bits: int = _parameter(
        0, "width of an AXI address, 32 to 64; 0: the width of a DRAM address", high=64
    )
    gemm_stages: int = _parameter(
        3, "pipeline registers from scratchpad data to the accumulator adder", low=1, high=MOST_GEMM_STAGES
    )
    packed: int = _parameter(
        0,
        "width of multipliers that each compute the products of two columns; 0: one product per multiplier",
        choices=(0, 18, 25),
    )
    requantise_lanes: int = _parameter(
        0,
        "most values that the store unit requantises in a cycle; 0: as many as a beat or an element holds",
        low=0,
        high=256,
        power=True,
    )
    alu_lanes: int = _parameter(
        0, "most columns that the ALU computes in a cycle; 0: all of block_out", low=0, high=256, power=True
    )
    alu_stages: int = _parameter(
        1, "pipeline stages of the ALU; 2: a higher clock, and SHR and MUL take one more slot", low=1, high=2
    )
    acc_ports: int = _parameter(
        2,
        "read ports of the accumulators; 2: the store unit reads a copy of them; 1: the store unit and the "
        "ALU's second operands take slots of the compute unit",
        low=1,
        high=2,
    )
    alu_opcodes: tuple[AluOpcode, ...] = field(default=VTA_ALU, metadata={"help": "operations the ALU has"})
    extensions: tuple[Extension, ...] = field(
        default=(),
        metadata={
            "help": f"instruction-set extensions that are on; `{Extension.DEPTHWISE}` has no effect unless "
            f"block_in and block_out are equal and at least {LEAST_BLOCKS[Extension.DEPTHWISE]}, "
            f"`{Extension.DEPTHWISE_ROWS}` unless they are equal and at least "
            f"{LEAST_BLOCKS[Extension.DEPTHWISE_ROWS]} (with `packed`, "
            f"{PAIR * LEAST_BLOCKS[Extension.DEPTHWISE_ROWS]}), `{Extension.FEEDBACK}` unless they are "
            f"equal, `{Extension.NARROW_WEIGHTS}` unless wgt_bits is more than {LEAST_WEIGHT_BITS} and an "
            f"element of WGT more than a byte, `{Extension.NORMALISE}` unless batch is {NORMALISABLE[0]}, "
            f"inp_bits {NORMALISABLE[1]} and acc_bits {NORMALISABLE[2]}"
        },
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "alu_opcodes", _members(AluOpcode, "alu_opcodes", self.alu_opcodes))
        object.__setattr__(self, "extensions", _members(Extension, "extensions", self.extensions))
        _check_name(self.name)
        for parameter in fields(self):
            _check_parameter(parameter.name, getattr(self, parameter.name), parameter.metadata)
        check_consistency(self)

    # Elements: the unit in which every address of that memory counts.

    @property
    def out_bits(self) -> int:
        """Width of an output: the width of an input."""
        return self.inp_bits

    @property
    def entries(self) -> int:
        """Entries of a table in an element of TABLE."""
        return ENTRIES_OF_ELEMENT

    @property
    def entry_bits(self) -> int:
        """Width of an entry of a table."""
        return BYTE_BITS

    def values(self, memory: MemoryType) -> int:
        """Values of one element of `memory`."""
        about = MEMORIES[memory]
        return prod(getattr(self, name) for name in (about.rows, about.columns) if name)

    def value_bits(self, memory: MemoryType, halvings: int = 0) -> int:
        """Bits of a value of `memory`, as a LOAD with `halvings` reads it from DRAM."""
        bits: int = getattr(self, MEMORIES[memory].bits)
        return bits >> _effective(memory, halvings)

    def least_value(self, memory: MemoryType, halvings: int = 0) -> int:
        """The least value of `memory`: with it `pad_minimum` pads; 0 for micro-ops, which are no numbers."""
        return 0 if memory is MemoryType.UOP else -(1 << (self.value_bits(memory, halvings) - 1))

    def pad_value(self, memory: MemoryType, register: int, halvings: int = 0) -> int:
        """The value with which `pad_value` pads `memory` where its unit's pad register holds `register`."""
        return 0 if memory is MemoryType.UOP else wrap(register, self.value_bits(memory, halvings))

    @cached_property
    def _data_bits(self) -> Mapping[MemoryType, int]:
        """Bits of an element of every memory but UOP, whose depend on the depths of the others."""
        return {memory: self.values(memory) * self.value_bits(memory) for memory in _DATA}

    def element_bits(self, memory: MemoryType, halvings: int = 0) -> int:
        """Bits of one element of `memory`, as a LOAD with `halvings` reads it from DRAM."""
        bits = self.uop_bits if memory is MemoryType.UOP else self._data_bits[memory]
        return bits >> _effective(memory, halvings)

    def element_bytes(self, memory: MemoryType, halvings: int = 0) -> int:
        """Bytes of one element of `memory` in DRAM: the unit of `dram_base` of a LOAD with `halvings`."""
        return self.element_bits(memory, halvings) // 8

    @property
    def most_halvings(self) -> int:
        """How often a LOAD can halve weights: values keep LEAST_WEIGHT_BITS, and elements whole bytes."""
        element, least = self.element_bytes(MemoryType.WGT), self.wgt_bits // LEAST_WEIGHT_BITS
        return max(1, min(element, least)).bit_length() - 1

    def halvings(self, memory: MemoryType) -> range:
        """The `halvings` that LOADs of `memory` can have to an effect."""
        is_narrow = memory is MemoryType.WGT and self.has(Extension.NARROW_WEIGHTS)
        return range(1 + is_narrow * self.most_halvings)

    @cached_property
    def _data_depths(self) -> Mapping[MemoryType, int]:
        pads = {memory: scratchpad_of(memory) for memory in _DATA}
        return {
            memory: getattr(self, BUFFERS[pad]) * 8 // self._data_bits[pad] for memory, pad in pads.items()
        }

    def depth(self, memory: MemoryType) -> int:
        """Elements that `memory` holds on chip; OUT and ACC_8BIT name the accumulator's."""
        return (
            self.uop_buffer_bytes * 8 // self.uop_bits
            if memory is MemoryType.UOP
            else self._data_depths[memory]
        )

    def index_bits(self, memory: MemoryType) -> int:
        """Bits of an on-chip element index of `memory` (U, I, W or A of the encoding)."""
        return self.depth(memory).bit_length() - 1

    # The encoding: as wide as VTA's wherever the fields fit.

    @cached_property
    def uop_bits(self) -> int:
        """Width of a micro-op: 32 bits, or 64 where its fields need more."""
        return encoding.uop_bits(self)

    @cached_property
    def instruction_bits(self) -> int:
        """Width of an instruction: 128 bits, or 256 where the fields of an instruction need more."""
        return encoding.instruction_bits(self)

    @property
    def instruction_bytes(self) -> int:
        """Bytes of an instruction; streams stand at multiples of it."""
        return self.instruction_bits // 8

    @cached_property
    def sram_base_bits(self) -> int:
        """Width of `sram_base`, which reaches every element of every scratchpad."""
        return encoding.field_of(isa.Load, "sram_base", self).width

    @property
    def bus_bytes(self) -> int:
        """Bytes of one beat of the memory data path."""
        return self.bus_bits // 8

    @property
    def burst_beats(self) -> int:
        """Beats of the longest burst."""
        return self.burst_bytes // self.bus_bytes

    @property
    def packed_bits(self) -> int:
        """Width of multipliers that compute the products of two columns; 0: one product per multiplier."""
        return self.packed if self.block_out > 1 else 0

    @property
    def most_requantise_lanes(self) -> int:
        """Values of a beat of outputs, or of an output element that is narrower."""
        return min(self.element_bits(MemoryType.OUT), self.bus_bits) // self.out_bits

    @property
    def values_per_store_read(self) -> int:
        """Values that a read of the store unit turns into outputs, which fill whole bytes."""
        if not (self.requantise_lanes and self.has(Extension.REQUANTISE)):
            return self.most_requantise_lanes
        return min(max(self.requantise_lanes, 8 // self.out_bits), self.most_requantise_lanes)

    @property
    def store_read_bytes(self) -> int:
        """Bytes of DRAM that a read of the store unit fills."""
        return self.values_per_store_read * self.out_bits // 8

    @cached_property
    def address_bits(self) -> int:
        """Bits of a DRAM byte address: enough for every `dram_base` of every memory."""
        return DRAM_BASE_BITS + max(map(self.element_bits, MemoryType)).bit_length() - 4

    @property
    def axi_address_width(self) -> int:
        """Bits of an address on the AXI bus. DRAM that the hardware can use ends where they do."""
        return self.axi_address_bits or self.address_bits

    @property
    def macs_per_cycle(self) -> int:
        """Multiply-accumulates of one GEMM micro-op, and so of one cycle at peak."""
        return self.batch * self.block_in * self.block_out

    @property
    def alu_pieces(self) -> int:
        """Pieces of an accumulator element that the ALU computes one after another; 1 where it has no
        operation."""
        if not (self.alu_lanes and self.alu_opcodes):
            return 1
        return max(1, self.block_out // self.alu_lanes)

    def has(self, extension: Extension) -> bool:
        """Whether `extension` is on and has an effect."""
        least = self.least_block(extension)
        if extension is Extension.DEPTHWISE_ROWS and self.depth(MemoryType.INP) < LEAST_BANKED:
            return False
        if extension is Extension.NARROW_WEIGHTS and not self.most_halvings:
            return False
        if extension is Extension.NORMALISE and (self.batch, self.inp_bits, self.acc_bits) != NORMALISABLE:
            return False
        return extension in self.extensions and (not least or self.block_in == self.block_out >= least)

    @cached_property
    def effective_extensions(self) -> tuple[Extension, ...]:
        """The extensions that are on and have an effect."""
        return tuple(extension for extension in Extension if self.has(extension))

    def least_block(self, extension: Extension) -> int:
        """The least `block_in` with which `extension` has an effect; 0: it always has."""
        shared = extension is Extension.DEPTHWISE_ROWS and self.packed_bits
        return LEAST_BLOCKS.get(extension, 0) * (PAIR if shared else 1)

    @cached_property
    def window(self) -> Window:
        """The largest window that a DEPTHWISE sums in a slot."""
        if not self.has(Extension.DEPTHWISE_ROWS):
            return Window(1, TAPS, PAIR)
        return largest_window(self.block_in, PAIR if self.packed_bits else 1)

    @property
    def operand_stages(self) -> int:
        """Pipeline registers from the data of INP's memories to the accumulator adder: `gemm_stages`, and a
        register behind the banks that INP has with DEPTHWISE_ROWS."""
        return self.gemm_stages + self.has(Extension.DEPTHWISE_ROWS)

    def __hash__(self) -> int:
        return hash((self.name, self.batch, self.block_in, self.block_out))  # hashing every field takes long

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of all parameters but the name; equal exactly for equal hardware."""
        absent = set(BUFFERS.values()) - {BUFFERS[memory] for memory in scratchpads_of(self)}
        hardware = {name: value for name, value in parameters(self).items() if name not in absent} | {
            "packed": self.packed_bits,
            "alu_lanes": self.block_out // self.alu_pieces,
            "requantise_lanes": self.values_per_store_read,
            "extensions": [extension.value for extension in self.effective_extensions],
        }
        return hashlib.sha256(json.dumps(hardware, sort_keys=True).encode()).hexdigest()

    def with_changes(self, **changes: Any) -> "AcceleratorConfig":
        """Return a copy with `changes`; unknown names and values out of range raise ConfigError."""
        for key in changes:
            if key not in PARAMETER_NAMES:
                raise unknown_parameter(key)
        return replace(self, **changes)


def unknown_parameter(key: str) -> ConfigError:
    """Return the error for a parameter that no configuration has."""
    return ConfigError(
        f"configuration parameter {shown(key)} is unknown; there are {', '.join(PARAMETER_NAMES)}"
    )


PARAMETER_NAMES = tuple(parameter.name for parameter in fields(AcceleratorConfig))


def parameters(config: AcceleratorConfig) -> dict[str, object]:
    """Return every parameter but the name as plain JSON values, in declaration order."""
    values = asdict(config)
    del values["name"]
    values["alu_opcodes"] = [opcode.name for opcode in config.alu_opcodes]
    values["extensions"] = [extension.value for extension in config.extensions]
    return values


def _members(kind: type[Member], name: str, values: object) -> tuple[Member, ...]:
    """Return `values` (members, or their names) as a sorted tuple of members of `kind`, without repeats."""
    if isinstance(values, str):
        values = values.replace(",", " ").split()
    if not isinstance(values, Iterable):
        raise ConfigError(f"{name} = {shown(values)} is not a list of {kind.__name__} names")
    chosen = [_member(kind, name, value) for value in values]
    return tuple(member for member in kind if member in chosen)


def _member(kind: type[Member], name: str, value: object) -> Member:
    for member in kind:
        if value is member or (isinstance(value, str) and value.upper() == member.name):
            return member
    allowed = ", ".join(member.name.lower() if kind is Extension else member.name for member in kind)
    raise ConfigError(f"{name} holds {shown(value)}, which is none of {allowed}")


def _check_name(name: object) -> None:
    if not isinstance(name, str):
        raise ConfigError(f"name = {shown(name)} is not text")
    if not name.isprintable():
        raise ConfigError(f"name = {shown(name)} holds characters that cannot be printed on one line")


def _check_parameter(name: str, value: object, limits: Mapping[str, Any]) -> None:
    if "low" not in limits:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{name} = {shown(value)} is not a whole number")
    if limits["choices"]:
        if value not in limits["choices"]:
            raise ConfigError(f"{name} = {shown(value)} is none of {', '.join(map(str, limits['choices']))}")
        return
    if not limits["low"] <= value <= limits["high"]:
        raise ConfigError(f"{name} = {shown(value)} is outside {limits['low']}..{limits['high']}")
    if limits["power"] and value & (value - 1):
        raise ConfigError(f"{name} = {value} is not a power of two; the nearest are {_neighbours(value)}")


def _neighbours(value: int) -> str:
    above = 1 << value.bit_length()
    return f"{above // 2} and {above}"


def _effective(memory: MemoryType, halvings: int) -> int:
    """Return the halvings that a LOAD of `memory` with these `halvings` carries out."""
    return halvings if memory is MemoryType.WGT else 0


_DATA: tuple[MemoryType, ...] = tuple(memory for memory in MemoryType if memory is not MemoryType.UOP)
