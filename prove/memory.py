"""DRAM and scratchpads of the stream machine: elements and their residues in place of bytes."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.memories import scratchpads_of
from vdla.hw.spec.vocabulary import MemoryType
from vdla.prove.domain import Domain
from vdla.prove.elements import ELEMENT, RESIDUES, Elements, Floats, undefined
from vdla.prove.stream_kernels import copy_rows, write_weights

Indices = NDArray[np.int64]
Places = Indices | slice
NO_WRITER = -1
COPIED = (MemoryType.INP, MemoryType.RES)
"""Memories that hold activations as DRAM does."""


@dataclass(frozen=True)
class Lanes:
    """The values of some elements of a memory.

    Attributes:
        elements: elements[n, lanes].
        residues: float64[RESIDUES, n, lanes], of each value.
    """

    elements: Elements
    residues: Floats

    @classmethod
    def of_constants(cls, domain: Domain, values: np.ndarray) -> "Lanes":
        """Return lanes of constant bytes, int[n, lanes]."""
        residues = np.broadcast_to(values.astype(np.float64), (RESIDUES, *values.shape))
        return cls(domain.constants(values), np.ascontiguousarray(residues))

    def chosen(self, places: Indices) -> "Lanes":
        """Return a copy of some elements, int64[n]."""
        return Lanes(self.elements[places], self.residues.take(places, axis=1))

    def put(self, places: Places, values: "Lanes") -> None:
        """Replace some elements."""
        self.elements[places] = values.elements
        self.residues[:, places] = values.residues

    def copy(self, places: Indices, source: "Lanes", chosen: Indices) -> None:
        """Replace elements, int64[n], by the elements `chosen`, int64[n], of other lanes."""
        mine, others = (
            each.elements.view(np.uint64).reshape(len(each.elements), -1) for each in (self, source)
        )
        copy_rows(others, source.residues, chosen, mine, self.residues, places)


class Dram:
    """DRAM: bytes that never change, and a range of bytes of activations.

    Activations that nothing has written are unknown: a stream may read them, as what fills up a block of
    channels, but no result that is compared may depend on them.

    Args:
        domain: of the proof.
        constants: uint8[bytes], all of DRAM before the run; bytes of activations have no meaning.
        low, high: the range of activations; `low` is a multiple of `alignment`.
        alignment: a multiple of the bytes of every element.
        spare: bytes behind the activations, for elements of scratchpads that are no copies (`Pad`).

    Attributes:
        writers: int64[high - low], the instruction that wrote each byte last; NO_WRITER where none did.
        pads: the scratchpads that refer to activations.
    """

    def __init__(
        self,
        domain: Domain,
        constants: NDArray[np.uint8],
        low: int,
        high: int,
        alignment: int,
        spare: int = 0,
    ) -> None:
        if low % alignment:
            raise ValueError(f"activations from byte {low} on are not aligned to {alignment} bytes")
        self.constants, self.low = constants, low
        size = -(-(high - low) // alignment) * alignment
        self.high = low + size
        self.elements = np.zeros(size + -(-spare // alignment) * alignment, ELEMENT)
        self.elements["kind"] = domain.kind("unwritten byte")
        self.elements["lo"] = np.arange(low, low + len(self.elements))
        self.residues = domain.values(self.elements).residues
        self.writers = np.full(size, NO_WRITER)
        self.pads: list[Pad] = []
        self._views: dict[int, Lanes] = {}

    def view(self, size: int) -> Lanes:
        """Return the activations, and what is spare behind them, as lanes of `size` bytes each."""
        if size not in self._views:
            self._views[size] = Lanes(
                self.elements.reshape(-1, size), self.residues.reshape(RESIDUES, -1, size)
            )
        return self._views[size]

    def put(self, size: int, places: Indices, values: Lanes, writers: Indices) -> None:
        """Replace elements of `size` bytes each, int64[n], by what instructions int64[n] wrote."""
        self._keep(int(places.min()) * size, (int(places.max()) + 1) * size)
        self.view(size).copy(places, values, np.arange(len(places)))
        self.writers.reshape(-1, size)[places] = writers[:, None]

    def constant(self, size: int, addresses: Indices) -> NDArray[np.uint8]:
        """Return elements of `size` bytes that never change, uint8[n, size], by address, int64[n]."""
        chosen: NDArray[np.uint8]
        if (addresses % size).any():
            chosen = self.constants[addresses[:, None] + np.arange(size)]
        else:
            rows = self.constants[: len(self.constants) // size * size].reshape(-1, size)
            chosen = rows.take(addresses // size, axis=0)
        return chosen

    def read(self, addresses: Indices) -> Lanes:
        """Return bytes of activations by address, lanes[n, m] for int64[n, m]."""
        places = addresses - self.low
        return Lanes(self.elements[places], self.residues[:, places])

    def write(self, begin: int, values: Lanes) -> None:
        """Replace bytes of activations from address `begin` on by lanes[n, 1]."""
        place = slice(begin - self.low, begin - self.low + len(values.elements))
        self._keep(place.start, place.stop)
        self.elements[place] = values.elements[:, 0]
        self.residues[:, place] = values.residues[..., 0]
        self.writers[place] = NO_WRITER

    def _keep(self, low: int, high: int) -> None:
        """Let the scratchpads copy what they hold of the bytes `low` to `high - 1`, which will change."""
        for pad in self.pads:
            pad.keep(low, high)


class Pad:
    """A scratchpad of activations. A LOAD copies no values: an element refers to the row of DRAM that holds
    its values. They are copied only when something else is written there. Elements that DRAM does not hold
    stand in separate rows, in what is spare behind the activations; all that hold the padding share a row
    behind these. At first, all are zero.

    Args:
        domain: of the proof.
        dram: DRAM.
        begin: first byte of its separate rows, `depth` + 1 of them, a multiple of `size`.
        depth: elements.
        size: bytes of an element.

    Attributes:
        lanes: lanes of DRAM.
        rows: int64[depth], the row of `lanes` that holds each element.
    """

    def __init__(self, domain: Domain, dram: Dram, begin: int, depth: int, size: int) -> None:
        self._domain, self._size, self._own = domain, size, begin // size + np.arange(depth)
        self._padding, self._padded = 0, begin // size + depth
        self.lanes, self.rows = dram.view(size), np.full(depth, self._padded)
        self._put_padding()
        dram.pads.append(self)

    def _put_padding(self) -> None:
        row = slice(self._padded, self._padded + 1)
        self.lanes.put(row, Lanes.of_constants(self._domain, np.full((1, 1), self._padding)))

    def fill(self, places: slice, value: int) -> None:
        """Replace elements by padding."""
        if value != self._padding:
            self.keep(self._padded * self._size, (self._padded + 1) * self._size)
            self._padding = value
            self._put_padding()
        self.rows[places] = self._padded

    def refer(self, places: Places, rows: Indices) -> None:
        """Replace elements by rows of DRAM, int64[n]."""
        self.rows[places] = rows

    def put(self, places: Places, values: Lanes) -> None:
        """Replace elements by lanes[n, lanes]."""
        self.rows[places] = self._own[places]
        self.lanes.put(self._own[places], values)

    def chosen(self, places: Places) -> Lanes:
        """Return a copy of some elements."""
        return self.lanes.chosen(self.rows[places])

    def keep(self, low: int, high: int) -> None:
        """Copy the elements that refer to some of the bytes `low` to `high - 1`, which will change."""
        held = np.flatnonzero((self.rows * self._size < high) & ((self.rows + 1) * self._size > low))
        if held.size:
            self.lanes.copy(self._own[held], self.lanes, self.rows[held])
            self.rows[held] = self._own[held]


class Weights:
    """The weights: numbers, or activations. At first, they are the number 0.

    Attributes:
        numbers: int8[depth, block_out, block_in]; 0 where weights are activations.
        columns: float64[depth, block_in, block_out], the numbers for matrix products.
        magnitudes: int64[depth, block_out], magnitudes of the numbers, added up along block_in.
        activations: lanes of weights that are activations [depth, block_out * block_in].
        is_activation: bool[depth], which weights are activations.
        has_activations: whether some weights have been activations.
    """

    def __init__(self, depth: int, block_out: int, block_in: int) -> None:
        self._every = np.arange(depth)
        self.numbers = np.zeros((depth, block_out, block_in), np.int8)
        self.columns = np.zeros((depth, block_in, block_out))
        self.magnitudes = np.zeros((depth, block_out), np.int64)
        values = block_out * block_in
        self.activations = Lanes(undefined((depth, values)), np.zeros((RESIDUES, depth, values)))
        self.is_activation = np.zeros(depth, bool)
        self.has_activations = False

    def put_numbers(self, places: Places, numbers: NDArray[np.int8] | int) -> None:
        """Replace weights by numbers, int8[n, block_out * block_in] or one number for all."""
        rows = self._every[places]
        shape = len(rows), *self.numbers.shape[1:]
        values = np.reshape(numbers, shape) if np.ndim(numbers) else np.full(shape, numbers)
        blocks = np.ascontiguousarray(values, np.int8)
        write_weights(blocks, rows, self.numbers, self.columns, self.magnitudes)
        self.is_activation[places] = False

    def put_activations(self, places: Places, values: Lanes) -> None:
        """Replace weights by activations, lanes [n, block_out * block_in]."""
        self.put_numbers(places, 0)
        self.activations.put(places, values)
        self.is_activation[places] = self.has_activations = True


@dataclass(frozen=True)
class Scratchpads:
    """The other memories on chip.

    Attributes:
        inputs: inputs of batch * block_in values each.
        weights: weights.
        uops: int64[depth], encoded micro-ops.
        table: int8[entries of all elements].
        residuals: residuals of batch * block_out values each.
    """

    inputs: Pad
    weights: Weights
    uops: Indices
    table: NDArray[np.int8]
    residuals: Pad
    pad_registers: dict[int, int] = field(default_factory=dict)


def spare_bytes(config: AcceleratorConfig) -> int:
    """Return the bytes behind the activations in DRAM that the scratchpads of activations need."""
    aligned = max(config.element_bytes(memory) for memory in COPIED)
    return sum(_bytes_of(config, memory) + aligned for memory in COPIED)


def _bytes_of(config: AcceleratorConfig, memory: MemoryType) -> int:
    """Return the bytes of the rows that a scratchpad needs."""
    return (_depth(config, memory) + 1) * config.element_bytes(memory)


def _depth(config: AcceleratorConfig, memory: MemoryType) -> int:
    """Return the elements of a scratchpad; 0 without it."""
    return config.depth(memory) if memory in scratchpads_of(config) else 0


def empty_scratchpads(config: AcceleratorConfig, domain: Domain, dram: Dram) -> Scratchpads:
    """Return scratchpads of zeros. DRAM has `spare_bytes`."""
    depth = {memory: config.depth(memory) for memory in scratchpads_of(config)}
    dram.pads.clear()
    pads, begin = [], dram.high - dram.low
    for memory in COPIED:
        size = config.element_bytes(memory)
        begin = -(-begin // size) * size
        pads.append(Pad(domain, dram, begin, _depth(config, memory), size))
        begin += _bytes_of(config, memory)
    return Scratchpads(
        pads[0],
        Weights(depth[MemoryType.WGT], config.block_out, config.block_in),
        np.zeros(depth[MemoryType.UOP], np.int64),
        np.zeros(depth.get(MemoryType.TABLE, 0) * config.entries, np.int8),
        pads[1],
    )


def are_defined(elements: Elements) -> bool:
    """Whether no element is undefined."""
    return not elements.size or int(elements["function"].min()) >= 0


def signed_values(source: NDArray[np.uint8], bits: int) -> NDArray[np.int8]:
    """Return int8[n, 8 / bits * m]: the values of `bits` bits that fill bytes uint8[n, m] from the low bits
    upward."""
    starts = np.arange(0, 8, bits, dtype=np.uint8)
    raised = source[:, :, None] << (8 - bits - starts).astype(np.uint8)
    values: NDArray[np.int8] = raised.view(np.int8) >> (8 - bits)
    return values.reshape(len(source), -1)


def constant_bytes(domain: Domain, elements: Elements) -> NDArray[np.uint8] | None:
    """Return uint8[...], the values of elements that are all constants; None if an element has a root."""
    if elements["kind"].any():
        return None
    values: NDArray[np.uint8] = domain.functions.least[elements["function"]].astype(np.uint8)
    return values
