"""Runs inside the simulator: values looked up in tables, one vector per cycle."""

import random

import cocotb
from cocotb.triggers import FallingEdge
from streams import configuration, start

from vdla.hw.spec import isa
from vdla.hw.spec.timing import TABLE_STAGES
from vdla.hw.spec.vocabulary import Extension, MemoryType
from vdla.hw.tables import entry_bits, table_number_bits


@cocotb.test()
async def test_values_become_their_entries_or_stay(dut):
    """Elements are written while others are looked up, at last in the cycle before. A table of powers begins
    with any table but the last."""
    config, rng = configuration(), random.Random(1)
    lanes, tables = config.values_per_store_read, 1 << table_number_bits(config)
    bits, of_powers = entry_bits(config), ("powers", "above") if config.has(Extension.NORMALISE) else ()
    entries = [0] * (config.depth(MemoryType.TABLE) * config.entries)
    assert len(entries) == tables * 256
    await start(
        dut, "values", "looks_up", "table", "write__address", "write__data", "write__enable", *of_powers
    )
    for index in range(config.depth(MemoryType.TABLE)):
        dut.write__address.value, dut.write__data.value = index, 0
        dut.write__enable.value = 1
        await FallingEdge(dut.clk)
    expected, measured = [], []
    for _ in range(3000):
        powers, looks_up = bool(of_powers) and rng.random() < 0.5, rng.random() < 0.8
        table = rng.randrange(tables - powers)
        values = [rng.randrange(256) for _ in range(lanes)]
        dut.values.value = sum(value << 8 * lane for lane, value in enumerate(values))
        dut.table.value, dut.looks_up.value = table, int(looks_up)
        if of_powers:
            dut.powers.value, dut.above.value = int(powers), (table + 1) % tables
        places = [256 * table + (1 + powers) * value for value in values]
        found = [entries[place] | (entries[place + 1] << 8 if powers else 0) for place in places]
        looked_up = found if looks_up else values
        expected.append(sum(value << bits * lane for lane, value in enumerate(looked_up)))
        indices = {place // config.entries for place in places}
        index, word = rng.randrange(config.depth(MemoryType.TABLE)), rng.getrandbits(32)
        writes = index not in indices and rng.random() < 0.7
        dut.write__address.value, dut.write__data.value = index, word
        dut.write__enable.value = int(writes)
        if writes:
            entries[config.entries * index : config.entries * (index + 1)] = word.to_bytes(4, "little")
        await FallingEdge(dut.clk)
        measured.append(int(dut.outputs.value) if dut.outputs.value.is_resolvable else None)
    behind = TABLE_STAGES - 1
    assert measured[behind:] == expected[: len(expected) - behind]


@cocotb.test()
async def test_a_table_has_an_element_for_every_four_values(dut):
    assert isa.TABLE_ELEMENTS * configuration().entries == 256
