"""Energy of instructions: events times a table, whose entries scale with widths and sizes."""

import pytest

from tests.sim.helpers import ACC, CONFIG, INP, UOP, WGT, alu, gemm, load, store, stream_of
from vdla.hw.spec import isa
from vdla.hw.spec.target import ENERGY_45NM, EnergyTable
from vdla.hw.spec.vocabulary import AluOpcode
from vdla.sim.decoded import decode_stream
from vdla.sim.energy import COMPONENTS, access_pj, by_component, element_pj, energies

NONE = EnergyTable(*(0.0 for _ in range(7)))
KIB = 1024


def energy_of(instruction: isa.Instruction, table: EnergyTable, config=CONFIG) -> float:
    """Return the energy of one instruction, without the energy of its fetch."""
    stream = stream_of((instruction, isa.Finish()), config)
    energy, fetch = energies(decode_stream(stream, config), table).sum(axis=0)
    return energy - fetch


@pytest.mark.parametrize(
    ("instruction", "table", "expected"),
    [
        (gemm(iter_in=3), EnergyTable(1, 0, 0, 0, 0, 0, 0), 3 * 16),
        (gemm(iter_in=3), EnergyTable(0, 1, 0, 0, 0, 0, 0), 0),
        (gemm(iter_in=3), EnergyTable(0, 0, 1, 0, 0, 0, 0), 3 * 16),
        (alu(AluOpcode.MUL, use_imm=1), EnergyTable(0, 1, 0, 0, 0, 0, 0), 4),
        (store(parameters=1), EnergyTable(0, 1, 0, 0, 0, 0, 0), 4),
        (store(parameters=1), EnergyTable(0, 0, 1, 0, 0, 0, 0), 2 * 4),
        (load(INP, x_size=6), EnergyTable(0, 0, 0, 0, 0, 0, 1), 6 * 4 / 8),
        (store(x_size=6), EnergyTable(0, 0, 0, 0, 0, 0, 1), 6 * 4 / 8),
    ],
)
def test_each_energy_of_the_table_counts_its_events(instruction, table, expected):
    assert energy_of(instruction, table) == pytest.approx(expected)


def test_an_instruction_costs_its_fetch():
    program = decode_stream(stream_of((isa.Finish(), gemm())), CONFIG)
    energy = energies(program, EnergyTable(1, 1, 1, 1, 1, 1, 10))
    assert energy.sum(axis=0).tolist() == [16 / 8 * 10, 0]
    assert by_component(energy) == {"dram": 16 / 8 * 10}


@pytest.mark.parametrize(
    ("instruction", "components"),
    [
        (gemm(iter_in=3), {"dram", "uop", "inp", "wgt", "acc", "multipliers"}),
        (gemm(reset=1), {"dram", "uop", "acc"}),
        (alu(AluOpcode.ADD), {"dram", "uop", "acc", "alu"}),
        (load(INP, x_size=6), {"dram", "inp"}),
        (load(WGT), {"dram", "wgt"}),
        (store(x_size=6), {"dram", "acc"}),
        (store(parameters=1), {"dram", "acc", "requantiser"}),
    ],
)
def test_energy_is_spent_by_the_components_that_an_instruction_uses(instruction, components):
    stream = stream_of((instruction, isa.Finish()), CONFIG)
    energy = energies(decode_stream(stream, CONFIG), ENERGY_45NM)
    assert set(by_component(energy)) == components
    assert energy.shape == (len(COMPONENTS), 2)
    assert sum(by_component(energy).values()) == pytest.approx(energy.sum())


def test_scratchpads_cost_by_element_and_access():
    per_element = element_pj(CONFIG, ENERGY_45NM)
    accesses = EnergyTable(0, 0, 0, dram=0)
    gemm_pj = sum(per_element[memory] for memory in (UOP, INP, WGT)) + 2 * per_element[ACC]
    assert energy_of(gemm(iter_out=5), accesses) == pytest.approx(5 * gemm_pj)
    assert per_element[WGT] == pytest.approx(16 * 8 / 64 * access_pj(256, ENERGY_45NM))


@pytest.mark.parametrize(("size", "energy"), [(8 * KIB, 10), (32 * KIB, 20), (1024 * KIB, 100)])
def test_accesses_cost_what_the_table_says_at_its_sizes(size, energy):
    assert access_pj(size, ENERGY_45NM) == pytest.approx(energy)


def test_between_and_beyond_the_tables_sizes_energy_follows_a_power_of_the_size():
    assert access_pj(16 * KIB, ENERGY_45NM) == pytest.approx(10 * 2**0.5)
    assert access_pj(2 * KIB, ENERGY_45NM) == pytest.approx(5)
    sizes = [access_pj(1 << bits, ENERGY_45NM) for bits in range(6, 26)]
    assert sizes == sorted(sizes)


def test_a_table_of_zeros_costs_nothing():
    assert energy_of(gemm(), NONE) == 0


@pytest.mark.parametrize(
    ("changes", "table", "ratio"),
    [
        ({"wgt_bits": 4, "wgt_buffer_bytes": 128}, EnergyTable(1, 0, 0, 0, 0, 0, 0), 1 / 2),
        ({"acc_bits": 16, "acc_buffer_bytes": 128}, EnergyTable(0, 0, 1, 0, 0, 0, 0), 1 / 2),
    ],
)
def test_arithmetic_scales_with_its_bits(changes, table, ratio):
    narrow = CONFIG.with_changes(extensions=(), **changes)
    plain = CONFIG.with_changes(extensions=())
    assert energy_of(gemm(), table, narrow) == pytest.approx(ratio * energy_of(gemm(), table, plain))
