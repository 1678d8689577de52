"""Programs with a planted cause of slowness or of a wrong result, each beside the same program without it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import numpy as np

import vdla
from tests.cli.models import QUANTISED, model, node
from vdla.explore.debug.launches import compared_recordings, vector_recording
from vdla.explore.debug.recording import Recording
from vdla.hw.spec import codec, isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.memory import REFERENCE_MEMORY, MemoryParameters
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.module.plan import Plan, random_inputs
from vdla.runtime.vectors import Segment, Vector
from vdla.runtime.workloads import Addresses, GemmPlan, gemm_instructions, place_gemm, random_operands

BASE = TINY.with_changes(name="base", acc_ports=2, alu_lanes=0, gemm_stages=3)
INP, WGT, UOP = MemoryType.INP, MemoryType.WGT, MemoryType.UOP
Stream = list[isa.Instruction]
TILES = (16, 2, 8)
STORING = (128, 64, 4), (32, 2, 1)  # sizes and tiles of a GEMM that stores often


@dataclass(frozen=True)
class Planted:
    """A run with a planted cause.

    Attributes:
        culprits: the instructions that carry the cause; empty where the configuration or the memory does.
        healthy: the run without the cause.
    """

    recording: Recording
    culprits: tuple[int, ...]
    healthy: Recording


@dataclass(frozen=True)
class Product:
    """A GEMM in DRAM, and its program."""

    plan: GemmPlan
    at: Addresses
    dram: np.ndarray
    result: np.ndarray

    @property
    def stream(self) -> Stream:
        """The instructions."""
        return list(gemm_instructions(self.plan, self.at))

    def vector(self, stream: Sequence[isa.Instruction]) -> Vector:
        """Return a vector of another program in this DRAM, which expects the result of the product."""
        words = np.frombuffer(codec.to_bytes(stream, self.plan.config), np.uint8)
        size = self.plan.m * self.plan.n
        bounds = sorted([self.at.uop, self.at.inp, self.at.wgt, self.at.out, self.at.out + size])
        segments = tuple(
            Segment(
                begin,
                self.dram[begin:end].copy(),
                self.result[begin:end].copy() if begin == self.at.out else None,
            )
            for begin, end in pairwise(bounds)
        )
        rows = words.reshape(-1, self.plan.config.instruction_bytes)
        return Vector("planted", self.plan.config, rows, segments)

    def run(
        self, stream: Sequence[isa.Instruction], memory: MemoryParameters = REFERENCE_MEMORY
    ) -> Recording:
        """Return the recording of a program."""
        return vector_recording(self.vector(stream), memory)


@cache
def product(
    config: AcceleratorConfig = BASE,
    sizes: tuple[int, int, int] = (64, 16, 64),
    tiles: tuple[int, int, int] = TILES,
) -> Product:
    """Return a GEMM of some sizes in values and tiles in blocks."""
    plan = GemmPlan(config, *sizes, 6, *tiles)
    device = FunctionalDevice(config, 1 << 20)
    placed = place_gemm(device, plan, *random_operands(plan))
    before = device.dram.copy()
    placed.run()
    return Product(plan, placed.at, before, device.dram.copy())


def where(stream: Sequence[isa.Instruction], holds: Callable[[isa.Instruction], bool]) -> list[int]:
    """Return the instructions for which something holds."""
    return [index for index, each in enumerate(stream) if holds(each)]


def loads(stream: Sequence[isa.Instruction], memory: MemoryType) -> list[int]:
    """Return the LOADs of a memory."""
    return where(stream, lambda each: isinstance(each, isa.Load) and each.memory_type == memory)


def products(stream: Sequence[isa.Instruction]) -> list[int]:
    """Return the GEMMs that multiply."""
    return where(stream, lambda each: isinstance(each, isa.Gemm) and not each.reset)


def missing_prefetch() -> Planted:
    """Every tile is loaded to the place of the tile before, when that has been used."""
    gemm = product()
    stream, (inputs, weights) = gemm.stream, (loads(gemm.stream, memory) for memory in (INP, WGT))
    for step, (inp, wgt) in enumerate(zip(inputs, weights, strict=True)):
        stream[inp] = replace(stream[inp], sram_base=0, pop_next=int(step > 0))
        stream[wgt] = replace(stream[wgt], sram_base=0)
    multiplying = products(stream)
    for step, index in enumerate(multiplying):
        begin = stream[index].uop_begin - (step % 2) * gemm.plan.tile_n
        stream[index] = replace(
            stream[index],
            uop_begin=begin,
            uop_end=begin + gemm.plan.tile_n,
            push_prev=int(step + 1 < len(multiplying)),
        )
    return Planted(gemm.run(stream), tuple(inputs[1:]), gemm.run(gemm.stream))


def shallow_queue() -> Planted:
    """The queue of the compute unit has two places, in front of a memory with a long latency."""
    config, memory = BASE.with_changes(name="shallow", compute_queue_depth=2), MemoryParameters(200)
    gemm, healthy = product(config, *STORING), product(BASE, *STORING)
    return Planted(gemm.run(gemm.stream, memory), (), healthy.run(healthy.stream, memory))


def extra_token() -> Planted:
    """A reset gives the load unit a token, although it reads no inputs."""
    gemm, stream = product(), product().stream
    reset = where(stream, lambda each: isinstance(each, isa.Gemm) and bool(each.reset))[0]
    stream[reset] = replace(stream[reset], push_prev=1)
    return Planted(gemm.run(stream), (reset,), gemm.run(gemm.stream))


def small_tiles() -> Planted:
    """A tile is one block in each direction, so every LOAD is a burst of one beat or two."""
    sizes = (16, 8, 32)
    gemm, healthy = product(BASE, sizes, (1, 1, 1)), product(BASE, sizes, (16, 2, 8))
    return Planted(gemm.run(gemm.stream), (), healthy.run(healthy.stream))


def wrong_address() -> Planted:
    """A LOAD reads the tile after the tile that its product needs."""
    gemm, stream = product(), product().stream
    wrong = loads(stream, INP)[2]
    stream[wrong] = replace(stream[wrong], dram_base=stream[wrong].dram_base + stream[wrong].x_size)
    return Planted(gemm.run(stream), (wrong,), gemm.run(gemm.stream))


def wrong_store() -> Planted:
    """A STORE writes the result one tile further."""
    gemm, stream = product(), product().stream
    wrong = where(stream, lambda each: isinstance(each, isa.Store))[-2]
    stream[wrong] = replace(stream[wrong], dram_base=stream[wrong].dram_base + stream[wrong].x_size // 2)
    return Planted(gemm.run(stream), (wrong,), gemm.run(gemm.stream))


def deadlock() -> Planted:
    """The last LOAD of weights gives no token."""
    gemm, stream = product(), product().stream
    silent = loads(stream, WGT)[-1]
    stream[silent] = replace(stream[silent], push_next=0)
    return Planted(gemm.run(stream), (silent,), gemm.run(gemm.stream))


def shared_port() -> Planted:
    """The store unit reads accumulators through the port of the compute unit."""
    gemm = product(BASE.with_changes(name="one port", acc_ports=1), *STORING)
    healthy = product(BASE, *STORING)
    return Planted(gemm.run(gemm.stream), (), healthy.run(healthy.stream))


def stalled_memory() -> Planted:
    """Memory moves a beat in every ninth cycle."""
    gemm = product()
    return Planted(
        gemm.run(gemm.stream, MemoryParameters(64, 16, 9)),
        tuple(loads(gemm.stream, INP)),
        gemm.run(gemm.stream),
    )


def late_micro_ops() -> Planted:
    """The micro-ops of every product are loaded right before it."""
    gemm, stream = product(), Stream()
    first = gemm.stream[loads(gemm.stream, UOP)[0]]
    for each in gemm.stream:
        if isinstance(each, isa.Gemm) and not each.reset:
            begin, count = each.uop_begin, each.uop_end - each.uop_begin
            place = {"sram_base": begin, "dram_base": first.dram_base + begin}
            stream.append(replace(first, **place, x_size=count, x_stride=count))
        stream.append(each)
    return Planted(gemm.run(stream), tuple(loads(stream, UOP)[1:]), gemm.run(gemm.stream))


LOOKUP = (
    node("QuantizeLinear", "x s z", "xq"),
    node("DequantizeLinear", "xq s z", "xd"),
    node("DequantizeLinear", "wq ws z", "wd"),
    node("Conv", "xd wd", "c", pads=[1, 1, 1, 1]),
    node("QuantizeLinear", "c ys z", "cq"),
    node("DequantizeLinear", "cq ys z", "cd"),
    node("Sigmoid", "cd", "sg"),
    node("QuantizeLinear", "sg ss sz", "sq"),
    node("DequantizeLinear", "sq ss sz", "sd"),
    node("DequantizeLinear", "w2 ws z", "wd2"),
    node("Conv", "sd wd2", "c2"),
    node("QuantizeLinear", "c2 ys z", "c2q"),
    node("DequantizeLinear", "c2q ys z", "y"),
)
TABLE = "sq.T"


@cache
def lookup_plan() -> Plan:
    """Return a network of two convolutions with a table between them."""
    second = np.random.default_rng(0).integers(-127, 128, (4, 4, 1, 1), np.int8)
    initializers = {name: QUANTISED[name] for name in ("wq", "s", "ws", "ys", "z")}
    initializers |= {"ss": np.float32(1 / 256), "sz": np.int8(-128), "w2": second}
    return vdla.compile(model(LOOKUP, initializers).SerializeToString(), "default").plan


def altered_plan() -> Plan:
    """Return the network with one altered entry of its table: the entry of the most frequent result."""
    plan = lookup_plan()
    table = plan.weights[TABLE].copy()
    table.reshape(-1)[128 + most_frequent(plan)] ^= 8
    return replace(plan, weights={**plan.weights, TABLE: table})


def most_frequent(plan: Plan) -> int:
    """Return the argument of the table that occurs most often with random inputs."""
    from vdla.explore.debug.differences import reference_values

    values = reference_values(plan, random_inputs(plan.inputs))["sq"]
    distinct, counts = np.unique(values, return_counts=True)
    result = distinct[np.argmax(counts)]
    entries = plan.weights[TABLE].reshape(-1)
    return int(np.flatnonzero(entries == result)[0]) - 128


def wrong_table() -> Planted:
    """An entry of a table is wrong."""
    plan = altered_plan()
    inputs = random_inputs(plan.inputs)
    (run,), (healthy,) = compared_recordings(plan, inputs), compared_recordings(lookup_plan(), inputs)
    return Planted(run, tuple(where_loads(run)), healthy)


def where_loads(run: Recording) -> list[int]:
    """Return the LOADs of tables."""
    return [index for index, text in enumerate(run.texts) if text.startswith("LOAD(memory_type=TABLE")]


MAKERS: dict[str, Callable[[], Planted]] = {
    "A missing prefetch": missing_prefetch,
    "A queue that is too shallow": shallow_queue,
    "A token too many": extra_token,
    "Tiles that are too small": small_tiles,
    "A wrong address": wrong_address,
    "A deadlock": deadlock,
    "A shared port of the accumulators": shared_port,
    "A stalled memory": stalled_memory,
    "A late load of micro-ops": late_micro_ops,
    "A wrong table": wrong_table,
}


@cache
def planted(name: str) -> Planted:
    """Return a planted cause by its name."""
    return MAKERS[name]()
