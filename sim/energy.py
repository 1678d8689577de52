"""Energy of a stream: the events of its instructions times the energies of a target's table.

It is the energy of arithmetic, scratchpads and DRAM. Leakage, clock tree and control are not in it.
"""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.isa import Opcode
from vdla.hw.spec.memories import SCRATCHPADS, scratchpads_of
from vdla.hw.spec.target import EnergyTable
from vdla.hw.spec.vocabulary import MemoryType
from vdla.sim.decoded import DecodedStream
from vdla.sim.events import events_of

WORD_BITS = 64  # of the accesses in an energy table
TABLE_PRODUCT_BITS, TABLE_SUM_BITS = 8, 32  # of its multiplications and sums
ARITHMETIC: Mapping[Opcode, str] = {
    Opcode.GEMM: "multipliers",
    Opcode.DEPTHWISE: "multipliers",
    Opcode.ALU: "alu",
    Opcode.STORE: "requantiser",
    Opcode.NORMALISE: "requantiser",
}
"""The component that does the arithmetic of an instruction."""
DRAM = "dram"
COMPONENTS = (
    DRAM,
    *(memory.name.lower() for memory in SCRATCHPADS),
    *dict.fromkeys(ARITHMETIC.values()),
)
"""What energy is broken down by: DRAM, each scratchpad, and the arithmetic of each unit."""


def by_component(energy: NDArray[np.float64]) -> dict[str, float]:
    """Return the energy of each component that has any, in pJ.

    Args:
        energy: float64[components, n], as `energies` gives it.
    """
    totals = energy.sum(axis=1).tolist()
    return {name: total for name, total in zip(COMPONENTS, totals, strict=True) if total}


def energies(program: DecodedStream, table: EnergyTable) -> NDArray[np.float64]:
    """Return float64[components, n]: the energy in pJ that each of COMPONENTS spends on each instruction.

    The energy of a product scales with both operands' bits, the energy of a sum with its bits. The energy
    of an access scales with the bits of the element and follows the size of the scratchpad (`access_pj`).
    """
    config, events = program.config, events_of(program)
    sums, wide = config.acc_bits / TABLE_SUM_BITS, (config.acc_bits / TABLE_SUM_BITS) ** 2
    products = config.inp_bits * config.wgt_bits / TABLE_PRODUCT_BITS**2
    arithmetic: NDArray[np.float64] = (
        events.products * (products * table.multiply_8_bits)
        + events.wide_products * (wide * table.multiply_32_bits)
        + events.sums * (sums * table.add_32_bits)
    )
    energy_pj = np.zeros((len(COMPONENTS), len(program)))
    energy_pj[COMPONENTS.index(DRAM)] = events.dram_bytes * (8 * table.dram / WORD_BITS)
    for memory, energy in element_pj(config, table).items():
        place = COMPONENTS.index(memory.name.lower())
        energy_pj[place] = (events.reads[memory] + events.writes[memory]) * energy
    for opcode, name in ARITHMETIC.items():
        energy_pj[COMPONENTS.index(name)] += np.where(program.opcode == opcode, arithmetic, 0.0)
    return energy_pj


def element_pj(config: AcceleratorConfig, table: EnergyTable) -> Mapping[MemoryType, float]:
    """Return the energy in pJ of one access to an element of each scratchpad."""
    return {
        memory: access_pj(config.depth(memory) * config.element_bytes(memory), table)
        * config.element_bits(memory)
        / WORD_BITS
        for memory in scratchpads_of(config)
    }


def access_pj(size_bytes: int, table: EnergyTable) -> float:
    """Return the energy in pJ of an access to 64 bits of an on-chip memory.

    Between the sizes of the table it is interpolated, and beyond them extrapolated, on logarithmic axes. An
    energy of 0 in the table makes every size free.
    """
    sizes = tuple(math.log(kib * 1024) for kib in (8, 32, 1024))
    known = (table.sram_8_kib, table.sram_32_kib, table.sram_1_mib)
    if not all(known):
        return 0.0
    logs, size = tuple(map(math.log, known)), math.log(size_bytes)
    upper = 0 if size < sizes[1] else 1
    slope = (logs[upper + 1] - logs[upper]) / (sizes[upper + 1] - sizes[upper])
    return math.exp(logs[upper] + slope * (size - sizes[upper]))
