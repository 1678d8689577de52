"""What the points of a kernel move and compute, in closed form: features for models, and an estimate of
cycles."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.codegen.derived.boxes import IntArray
from vdla.compiler.codegen.derived.table import Table
from vdla.compiler.codegen.estimate import DISTURBANCE, GEMM_CYCLES, HANDOVER_CYCLES, OVERLAP, SHARPNESS
from vdla.compiler.codegen.nest import TILE_RANK
from vdla.compiler.ir.nodes import Scope
from vdla.compiler.ir.types import DTYPES
from vdla.compiler.te.tensor import Reduce, Tensor
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.timing import LOADS_IN_PROGRESS, alu_delay
from vdla.hw.spec.vocabulary import AluOpcode, Extension

FloatArray: TypeAlias = NDArray[np.float64]
DELAYED = {"*": AluOpcode.MUL, ">>": AluOpcode.SHR}
CHIP = (Scope.INPUT, Scope.WEIGHT, Scope.ACCUMULATOR, Scope.PARAMETERS)


@dataclass(frozen=True, eq=False)
class Moved:
    """What loads or stores of one stage move, for each point: float64[n].

    Attributes:
        bytes: in all.
        bursts: requests to memory.
        instructions: LOADs or STOREs.
    """

    bytes: FloatArray
    bursts: FloatArray
    instructions: FloatArray


class Work:
    """What the points of a table move and compute on a memory."""

    def __init__(self, table: Table, memory: MemoryParameters) -> None:
        self.table, self.memory = table, memory
        self.kernel, self.config = table.kernel, table.kernel.config
        self.loads = {
            stage.name: self._moved(stage, table.sides[stage.name], self._rounds(stage))
            for stage in self.kernel.stages[:-1]
            if self.kernel.units[stage.name].loads
        }
        inside = [np.minimum(table.tiles[axis.name], axis.extent) for axis in self.kernel.axes]
        self.store = self._moved(self.kernel.output, inside, self.tiles * self.filled)

    @cached_property
    def filled(self) -> FloatArray:
        """The share of the tiles' elements that lie in the output."""
        parts = [
            axis.extent / (self.table.tiles[axis.name] * self.table.trips[axis.name])
            for axis in self.kernel.axes
        ]
        return prod(parts, start=np.ones(len(self.table)))

    def _rounds(self, stage: Tensor) -> FloatArray:
        """Return how often a stage is computed, tiles at the edge in part."""
        moving = self.table.levels[stage.name] > 0
        share: FloatArray = np.where(moving, self.filled, 1.0)
        return share * self.table.times(stage).astype(np.float64)

    def _moved(self, stage: Tensor, sides: list[IntArray], rounds: FloatArray) -> Moved:
        """Return what boxes of these sides move `rounds` times; what lies together is one run."""
        config, size = self.config, self._element_bytes(stage)
        run: FloatArray = np.full(len(self.table), float(size))
        rest: list[FloatArray] = [np.ones(len(self.table))]  # trips of the loops around a run
        whole = np.ones(len(self.table), bool)
        for side, extent in zip(reversed(sides), reversed(stage.shape[:-TILE_RANK]), strict=True):
            run = np.where(whole, run * side.astype(np.float64), run)
            rest.append(np.where(whole, 1, side).astype(np.float64))
            whole = whole & (side == extent)
        lines = prod(rest)
        instructions = lines / np.maximum.reduce(rest)  # a transfer has rows: one loop around a run
        bursts = lines * np.ceil(run / config.burst_bytes)
        return Moved(rounds * lines * run, rounds * bursts, rounds * instructions)

    def _element_bytes(self, stage: Tensor) -> float:
        """Return the bytes of an element of a stage in DRAM."""
        source = stage.inputs[0] if stage.inputs and stage is not self.kernel.output else stage
        return prod(source.shape[-TILE_RANK:]) * DTYPES[source.dtype].bytes

    @cached_property
    def steps(self) -> FloatArray:
        """Slots of the multiplier array and of the ALU."""
        return self.products + self.operations

    @cached_property
    def products(self) -> FloatArray:
        """Slots of the multiplier array."""
        return self._slots(multiplies=True)

    @cached_property
    def operations(self) -> FloatArray:
        """Slots of the ALU."""
        return self._slots(multiplies=False)

    def _slots(self, *, multiplies: bool) -> FloatArray:
        found = np.zeros(len(self.table))
        for stage in self._computed():
            if self.kernel.units[stage.name].multiplies is multiplies:
                elements = self._rounds(stage) * self.table.elements[stage.name]
                sums = prod(axis.extent for axis in self.kernel.sums(stage))
                resets = self._resets if multiplies else isinstance(stage.value, Reduce)
                found = found + elements * (sums * self._step(stage) + resets)
        return found

    def _step(self, stage: Tensor) -> int:
        """Return the slots of one step of a stage."""
        config, value = self.config, stage.value
        if self.kernel.units[stage.name].multiplies:
            return 1
        operands = len(stage.elements) + isinstance(value, Reduce)
        opcode = DELAYED.get(getattr(value, "op", ""), AluOpcode.ADD)
        pieces = config.block_out // (config.alu_lanes or config.block_out)
        return pieces + alu_delay(opcode, config.alu_stages) + (config.acc_ports == 1 and operands > 1)

    def _computed(self) -> Iterator[Tensor]:
        """Yield the stages of the compute unit."""
        for stage in self.kernel.stages[:-1]:
            if not self.kernel.units[stage.name].loads:
                yield stage

    @cached_property
    def rounds(self) -> FloatArray:
        """Times that loads and work take turns: once for each chunk, or tile."""
        found = np.ones(len(self.table))
        for stage in self._computed():
            found = np.maximum(found, self.table.times(stage) * self.table.chunk_trips(stage))
        return found

    @cached_property
    def tiles(self) -> FloatArray:
        """Tiles of the output."""
        tiles: FloatArray = prod(self.table.trips.values(), start=self.table.one).astype(np.float64)
        return tiles

    def beats(self, moved: Moved) -> FloatArray:
        """Return the cycles that what is moved takes the data path."""
        return self._beats_of(moved.bytes + moved.bursts * self.config.bus_bytes / 2)

    def _beats_of(self, moved: FloatArray) -> FloatArray:
        beats: FloatArray = moved / self.config.bus_bytes * self.memory.cycles_per_beat
        return beats

    def _all(self, scopes: Sequence[Scope]) -> Moved:
        """Return what is loaded into some memories."""
        zero = np.zeros(len(self.table))
        found = [moved for name, moved in self.loads.items() if self.kernel.units[name].scope in scopes]
        return Moved(
            sum((one.bytes for one in found), start=zero),
            sum((one.bursts for one in found), start=zero),
            sum((one.instructions for one in found), start=zero),
        )

    @cached_property
    def _resets(self) -> NDArray[np.bool_]:
        """Whether sums are set to 0 first: some tiles are cut at the edge, or nothing overwrites."""
        whole = np.full(len(self.table), self.config.has(Extension.OVERWRITE))
        for axis in self.kernel.axes:
            whole &= self.table.tiles[axis.name] * self.table.trips[axis.name] == axis.extent
            whole &= self.table.trips[axis.name] % self.table.apart[axis.name] == 0
        return ~whole

    def _turns(self) -> FloatArray:
        """Return how often work waits for loads inside tiles."""
        found = np.zeros(len(self.table))
        for stage in self.kernel.stages[:-1]:
            if stage.name in self.loads:
                inside = self.table.levels[stage.name] >= self.table.inside
                found = np.maximum(found, np.where(inside, self._rounds(stage), 0))
        return found

    def _standstills(self) -> FloatArray:
        """Return the cycles in which all work waits for what is loaded again outside of tiles."""
        found = np.zeros(len(self.table))
        for stage in self.kernel.stages[:-1]:
            if stage.name in self.loads:
                times = self._rounds(stage)
                again = self.table.levels[stage.name] < self.table.inside
                own = self.memory.latency + HANDOVER_CYCLES + self.beats(self.loads[stage.name]) / times
                found = found + np.where(again, (1 - OVERLAP) * (times - 1) * own, 0)
        return found

    def cycles(self) -> FloatArray:
        """Return float64[n]: estimated cycles.

        With one virtual thread everything comes in turn; with more, what bounds the units. Waits between
        units are divided among threads. Accumulators are loaded by the compute unit, which waits for them.
        """
        latency, threads, own = self.memory.latency, self.table.threads, self._all(CHIP[2:])
        ahead, count = self._all(CHIP[:2]), self._all(CHIP).instructions
        beats = self.beats(ahead)
        in_flight = min(self.config.max_requests, self.memory.depth)
        load = np.maximum(beats, (ahead.bursts * latency + beats) / in_flight)
        load = np.maximum(load, (ahead.instructions * latency + beats) / LOADS_IN_PROGRESS)
        store = self.beats(self.store)
        fetched = (count + self.store.instructions + self.rounds) * self.config.instruction_bytes
        bus = self.beats(self._all(CHIP)) + store + self._beats_of(fetched)
        compute = self.steps + GEMM_CYCLES * self.rounds + self.beats(own) + latency * own.instructions
        waits = (self._turns() + self.tiles) * (latency + HANDOVER_CYCLES)
        chain = (compute + load + store + waits) / threads
        bounds = np.stack(np.broadcast_arrays(bus, load, compute, chain))
        started = (
            load / self.rounds + store / self.tiles + 2 * latency
        )  # before the first work, and after the last
        resets = np.where(self._resets, self.tiles / threads, 0) * (latency + store / self.tiles)
        greatest = bounds.max(axis=0)
        nearness = ((bounds / greatest) ** SHARPNESS).sum(axis=0) - 1
        cycles: FloatArray = greatest * (1 + DISTURBANCE * nearness)
        return cycles + started + resets + self._standstills()


def features_of(work: Work) -> FloatArray:
    """Return float64[n, f]: what points are like, whichever kernel and target they are of.

    Logarithms of estimate, slots, bytes, bursts, instructions, rounds, tiles and reuse; those of the bytes
    loaded into each memory, and the share of it that is taken; virtual threads; the share of tiles that is
    filled.
    """
    table, moved = work.table, list(work.loads.values())
    zero = np.zeros(len(table))
    total = sum((one.bytes for one in moved), start=zero)
    beats = sum((work.beats(one) for one in (*moved, work.store)), start=zero)
    columns = [
        work.cycles(),
        work.products,
        work.operations,
        total,
        work.store.bytes,
        sum((one.bursts for one in moved), start=zero),
        sum((one.instructions for one in moved), start=zero),
        work.store.instructions,
        work.rounds,
        work.tiles,
        work.steps / np.maximum(total, 1),
        work.steps / work.rounds,
        total / work.rounds,
        beats / np.maximum(work.steps, 1),
        *_by_memory(work),
    ]
    logs = [np.log2(1 + column) for column in columns]
    shares = [table.used[memory] / work.config.depth(memory) for memory in sorted(table.used, key=int)]
    return np.stack([*logs, *shares, table.threads.astype(float), work.filled], axis=1)


def _by_memory(work: Work) -> Iterator[FloatArray]:
    """Yield the bytes that are loaded into each memory."""
    for scope in CHIP:
        names = [name for name in work.loads if work.kernel.units[name].scope is scope]
        yield sum((work.loads[name].bytes for name in names), start=np.zeros(len(work.table)))
