"""Random programs whose tokens are right by construction, for holding devices against each other."""

import random
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from generators.instructions import UOP_TABLE, Access, InstructionMaker
from vdla.hw.spec import codec, isa
from vdla.hw.spec.config import NORMALISABLE, AcceleratorConfig
from vdla.hw.spec.errors import ConfigError, OverwriteError
from vdla.hw.spec.units import TOKEN_EDGES, TokenEdge, Unit, unit_of
from vdla.hw.spec.vocabulary import VTA_SRAM_BASE_BITS, VTA_UOP_BITS, Extension, MemoryType
from vdla.runtime.device import Device, RunResult

IMAGE_BYTES = 1 << 18
FINISH_NOISE_START = 7  # first bit of FINISH that means nothing


@dataclass(frozen=True)
class Program:
    """A stream with the DRAM it starts from.

    Attributes:
        image: uint8[IMAGE_BYTES], DRAM from address 0.
        stream: encoded instructions, which stand right behind the image.
    """

    config: AcceleratorConfig
    instructions: tuple[isa.Instruction, ...]
    image: np.ndarray
    stream: bytes

    @property
    def dram_bytes(self) -> int:
        """DRAM that a device needs to run this program."""
        return IMAGE_BYTES + len(self.stream)

    def run_on(self, device: Device) -> tuple[RunResult, np.ndarray]:
        """Run on `device` from cleared scratchpads; return the result and the final image,
        uint8[IMAGE_BYTES]."""
        result = self._run(device)
        return result, device.copy_out(0, IMAGE_BYTES)

    def refusal_by(self, device: Device) -> tuple[OverwriteError | None, int]:
        """Run on `device`, which must refuse it.

        Returns:
            the error, None where the program ran; and how many bytes of DRAM, stream included, have changed.
        """
        error = None
        try:
            self._run(device)
        except OverwriteError as caught:
            error = caught
        before = np.append(self.image, np.frombuffer(self.stream, np.uint8))
        return error, int(np.count_nonzero(device.copy_out(0, self.dram_bytes) != before))

    def _run(self, device: Device) -> RunResult:
        device.reset()
        device.copy_in(0, self.image)
        device.copy_in(IMAGE_BYTES, self.stream)
        return device.run(IMAGE_BYTES, len(self.stream) // self.config.instruction_bytes)


def random_program(config: AcceleratorConfig, seed: int, length: int = 60) -> Program:
    """Return a program of about `length` working instructions, the same for the same arguments.

    Tokens order any two instructions of different units that touch the same data, if at least one of them
    writes. Every legal interleaving of the units therefore gives the same result. Program order is legal, so
    no program deadlocks.
    """
    rng = random.Random(seed)
    image = np.random.default_rng(seed).integers(0, 256, IMAGE_BYTES, dtype=np.uint8)
    maker = InstructionMaker(config, rng, IMAGE_BYTES)
    uops = codec.uops_to_bytes(maker.uop_table, config)
    image[UOP_TABLE : UOP_TABLE + len(uops)] = np.frombuffer(uops, np.uint8)
    weaver = TokenWeaver(config, rng)
    for _ in range(length):
        weaver.add(*maker.make())
    weaver.add(isa.Finish(), Access())
    instructions = tuple(weaver.instructions)
    return Program(config, instructions, image, _encode(instructions, config, rng))


def self_storing_program(config: AcceleratorConfig, seed: int, length: int = 60) -> Program:
    """Return a random program with one STORE or NORMALISE more, which writes the stream or micro-ops that it
    loads."""
    rng, program = random.Random(seed), random_program(config, seed, length)
    byte = rng.choice([_random_stream_byte, _random_uop_byte])(program, rng)
    store = InstructionMaker(config, rng, IMAGE_BYTES).store_onto(byte)
    position = rng.randrange(len(program.instructions))  # in front of any instruction, FINISH included
    instructions = (*program.instructions[:position], store, *program.instructions[position:])
    return replace(program, instructions=instructions, stream=_encode(instructions, config, rng))


def _random_stream_byte(program: Program, rng: random.Random) -> int:
    return IMAGE_BYTES + rng.randrange(len(program.stream))


def _random_uop_byte(program: Program, rng: random.Random) -> int:
    """Return the address of a byte that a LOAD of UOP reads; of the stream where there is no such LOAD."""
    loads = [
        item
        for item in program.instructions
        if isinstance(item, isa.Load) and item.memory_type is MemoryType.UOP and item.x_size and item.y_size
    ]
    if not loads:
        return _random_stream_byte(program, rng)
    load = rng.choice(loads)
    element = load.dram_base + rng.randrange(load.y_size) * load.x_stride + rng.randrange(load.x_size)
    size = program.config.element_bytes(MemoryType.UOP)
    return element * size + rng.randrange(size)


def _encode(instructions: tuple, config: AcceleratorConfig, rng: random.Random) -> bytes:
    """Encode, with noise in the bits of FINISH that have no meaning (VTA's runtime leaves some there)."""
    words = [codec.encode(instruction, config) for instruction in instructions]
    words[-1] |= rng.getrandbits(config.instruction_bits - FINISH_NOISE_START) << FINISH_NOISE_START
    return b"".join(word.to_bytes(config.instruction_bytes, "little") for word in words)


_NO_OPERATION = {
    Unit.LOAD: isa.Load(memory_type=MemoryType.INP),
    Unit.COMPUTE: isa.Load(memory_type=MemoryType.UOP),
    Unit.STORE: isa.Store(memory_type=MemoryType.OUT),
}


@dataclass(frozen=True)
class _Push:
    """A token on its way: the instruction that pushed it, and what that instruction knew to be done."""

    position: int
    known: dict[Unit, int]


class TokenWeaver:
    """Append instructions in program order and add the token flags, and token-only instructions, that order
    conflicts."""

    def __init__(self, config: AcceleratorConfig, rng: random.Random) -> None:
        self.instructions: list[isa.Instruction] = []
        self._limit = config.token_depth
        self._rng = rng
        self._known = {
            unit: dict.fromkeys(Unit, -1) for unit in Unit
        }  # last instruction of others known done, by unit
        self._last = dict.fromkeys(Unit, -1)
        self._tokens: dict[TokenEdge, list[_Push]] = {edge: [] for edge in TOKEN_EDGES}
        self._reads: dict[object, dict[Unit, int]] = defaultdict(dict)
        self._writes: dict[object, dict[Unit, int]] = defaultdict(dict)

    def add(self, instruction: isa.Instruction, access: Access) -> None:
        """Append `instruction`, ordered behind everything that it conflicts with."""
        unit = unit_of(instruction)
        for other_unit, position in self._conflicts(unit, access).items():
            self._order(unit, other_unit, position)
        position = self._append(self._decorated(instruction, unit))
        for key in access.reads:
            self._reads[key][unit] = position
        for key in access.writes:
            self._writes[key][unit] = position

    def _conflicts(self, unit: Unit, access: Access) -> dict[Unit, int]:
        """Return, by other unit, the last instruction that must be done before `access`."""
        needed: dict[Unit, int] = {}
        for table, keys in ((self._writes, access.reads | access.writes), (self._reads, access.writes)):
            for key in keys:
                for other_unit, position in table.get(key, {}).items():
                    if other_unit is not unit:
                        needed[other_unit] = max(position, needed.get(other_unit, -1))
        return needed

    def _order(self, unit: Unit, other_unit: Unit, position: int) -> None:
        """Let the next instruction of `unit` start behind instruction `position` of `other_unit`."""
        if self._known[unit][other_unit] >= position:
            return
        if abs(unit - other_unit) > 1:
            self._order(Unit.COMPUTE, other_unit, position)
            self._order(unit, Unit.COMPUTE, self._append(_NO_OPERATION[Unit.COMPUTE]))
            return
        edge = next(edge for edge in TOKEN_EDGES if (edge.producer, edge.consumer) == (other_unit, unit))
        if not any(push.position >= position for push in self._tokens[edge]):
            self._push(edge)
        while self._known[unit][other_unit] < position:
            self._append(replace(_NO_OPERATION[unit], **{edge.pop_flag: 1}))

    def _push(self, edge: TokenEdge) -> None:
        if len(self._tokens[edge]) == self._limit:
            self._append(replace(_NO_OPERATION[edge.consumer], **{edge.pop_flag: 1}))
        self._append(replace(_NO_OPERATION[edge.producer], **{edge.push_flag: 1}))

    def _decorated(self, instruction: isa.Instruction, unit: Unit) -> isa.Instruction:
        """Add pushes and pops at random where program order stays legal."""
        flags = {}
        for edge in TOKEN_EDGES:
            held = len(self._tokens[edge])
            if edge.consumer is unit and held and self._rng.random() < 0.3:
                flags[edge.pop_flag] = 1
            if edge.producer is unit and held < self._limit and self._rng.random() < 0.3:
                flags[edge.push_flag] = 1
        return replace(instruction, **flags)

    def _append(self, instruction: isa.Instruction) -> int:
        """Append as it is, keep the books of its tokens, and return its position."""
        unit, position = unit_of(instruction), len(self.instructions)
        self.instructions.append(instruction)
        for edge in TOKEN_EDGES:
            if edge.consumer is unit and getattr(instruction, edge.pop_flag):
                self._learn(unit, edge.producer, self._tokens[edge].pop(0))
        self._last[unit] = position
        for edge in TOKEN_EDGES:
            if edge.producer is unit and getattr(instruction, edge.push_flag):
                self._tokens[edge].append(_Push(position, dict(self._known[unit])))
        return position

    def _learn(self, unit: Unit, producer: Unit, push: _Push) -> None:
        known = self._known[unit]
        for other_unit, position in {**push.known, producer: push.position}.items():
            known[other_unit] = max(known[other_unit], position)


MOST_MACS = 1024  # of a configuration, which is built quickly


def random_config(seed: int) -> AcceleratorConfig:
    """Return a valid configuration, small enough to build quickly, the same for the same seed.

    Every fourth has fields that VTA's widths do not hold: see `_wide`.
    """
    rng, is_wide = random.Random(seed), seed % 4 == 2
    while True:
        choices = _choices(rng)
        try:
            config = AcceleratorConfig(name=f"random{seed}", **choices | (_wide(rng) if is_wide else {}))
        except ConfigError:
            continue
        as_meant = not is_wide or config.uop_bits > VTA_UOP_BITS or config.sram_base_bits > VTA_SRAM_BASE_BITS
        if as_meant and config.macs_per_cycle <= MOST_MACS and config.depth(MemoryType.ACC) >= 8:
            return config.with_changes(requantise_lanes=rng.choice(_requantise_lanes(config)))


def _choices(rng: random.Random) -> dict[str, Any]:
    """Return parameters drawn at random, which need not work together."""
    choices = {
        "batch": rng.choice((1, 1, 2, 4)),
        "block_in": rng.choice((4, 8, 16, 32)),
        "block_out": rng.choice((4, 8, 16)),
        "inp_bits": rng.choice((2, 4, 8, 8)),
        "wgt_bits": rng.choice((2, 4, 8, 8)),
        "acc_bits": rng.choice((16, 32, 32)),
        "uop_buffer_bytes": 1 << rng.randint(6, 12),
        "inp_buffer_bytes": 1 << rng.randint(6, 13),
        "wgt_buffer_bytes": 1 << rng.randint(7, 15),
        "acc_buffer_bytes": 1 << rng.randint(8, 15),
        **{f"{unit}_queue_depth": rng.choice((2, 3, 8, 33)) for unit in ("load", "compute", "store")},
        "token_depth": rng.choice((1, 2, 5, 255)),
        "bus_bits": rng.choice((64, 64, 128, 256, 512)),
        "burst_bytes": 1 << rng.randint(6, 10),
        "max_requests": rng.choice((1, 2, 7, 16)),
        "gemm_stages": rng.randint(1, 6),
        "alu_lanes": rng.choice((0, 0, 1, 2, 4)),
        "alu_stages": rng.choice((1, 2)),
        "alu_opcodes": tuple(opcode for opcode in isa.AluOpcode if rng.random() < 0.8),
        "table_buffer_bytes": 1 << rng.randint(9, 12),
        "res_buffer_bytes": 1 << rng.randint(6, 13),
        "extensions": tuple(extension for extension in Extension if rng.random() < 0.6),
        "axi_address_bits": rng.choice((0, 32, 64)),
    }
    choices["packed"] = rng.choice((0, 18, 25))
    if Extension.DEPTHWISE not in choices["extensions"]:
        choices["extensions"] = tuple(set(choices["extensions"]) - {Extension.DEPTHWISE_ROWS})
    else:
        choices |= dict.fromkeys(("block_in", "block_out"), rng.choice((8, 8, 16, 16, 32)))
    if Extension.NORMALISE in choices["extensions"] and rng.random() < 0.5:
        choices |= dict(zip(("batch", "inp_bits", "acc_bits"), NORMALISABLE, strict=True))
    choices["acc_ports"] = rng.choice((1, 2))
    if Extension.FEEDBACK in choices["extensions"] and rng.random() < 0.5:
        choices["block_in"] = choices["block_out"]
    return choices


def _requantise_lanes(config: AcceleratorConfig) -> tuple[int, ...]:
    """Return every number of lanes that a configuration may have."""
    if not config.has(Extension.REQUANTISE):
        return (0,)
    least, most = max(1, 8 // config.out_bits), config.most_requantise_lanes
    return (0, *(1 << bit for bit in range(most.bit_length()) if least <= 1 << bit))


def _wide(rng: random.Random) -> dict[str, int]:
    """Return parameters of which most need a wide encoding: small blocks, one deep scratchpad."""
    deep = rng.choice(("uop", "inp", "wgt", "acc"))
    return {
        "block_in": rng.choice((1, 2, 4)),
        "block_out": rng.choice((1, 2, 4)),
        **{f"{pad}_buffer_bytes": 1 << rng.randint(10, 15) for pad in ("uop", "inp", "wgt", "acc")},
        f"{deep}_buffer_bytes": 1 << rng.randint(17, 20),
    }
