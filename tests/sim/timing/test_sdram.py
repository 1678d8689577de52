"""The cycle simulator's SDRAM: equal to the model in front of the RTL, in leaps and cycle by cycle."""

import random
from dataclasses import replace

import numpy as np
import pytest
from generators.programs import IMAGE_BYTES, random_program

from tests.programs.devices import device
from tests.sim.timing.test_simulate import check_skipping, random_decoded
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.sdram import SdramParameters, sdram_timing
from vdla.hw.spec.timing import Client
from vdla.sim.decoded import decode_stream
from vdla.sim.timing.result import Timing
from vdla.sim.timing.simulate import simulate
from vdla.sim.timing.state import SdramTiming

GUARDED = TINY.with_changes(name="guarded", axi_address_bits=32)
WIDE = TINY.with_changes(name="wide bus", bus_bits=128, burst_bytes=512)
SLOW = SdramParameters(
    precharge=3,
    activate=3,
    write_recovery=3,
    write_to_read=4,
    refresh=9,
    refresh_interval=150,
    row_to_row=3,
    row_cycle=12,
    row_active=8,
    column_bits=6,
    read_latency=5,
    write_latency=2,
    refresh_phase=71,
)
"""Short rows and intervals: every state of bank machines, multiplexer and refresher occurs often."""
NARROW = SdramParameters(
    word_bits=8,
    command_depth=2,
    read_depth=3,
    write_depth=2,
    read_latency=1,
    row_to_row=0,
    row_cycle=0,
    row_active=0,
)
MEMORIES = {"part": SdramParameters(), "slow": SLOW, "narrow": NARROW}


def timing_of(config: AcceleratorConfig, seed: int, memory: SdramParameters, log: bool = False) -> Timing:
    program = random_program(config, seed, random.Random(seed).randint(5, 100))
    stream = decode_stream(np.frombuffer(program.stream, np.uint8), config)
    return simulate(stream, memory, stream_address=IMAGE_BYTES, log=log, cycle_limit=1_000_000)


@pytest.mark.parametrize("name", MEMORIES)
@pytest.mark.parametrize("config", [TINY, GUARDED, WIDE], ids=lambda config: config.name)
def test_cycles_counters_and_dram_are_those_of_the_rtl(config, name):
    memory = MEMORIES[name]
    for seed in range(12):
        program = random_program(config, seed, random.Random(seed).randint(5, 100))
        (run, dram), (rtl, expected) = (
            program.run_on(device(kind, config, memory)) for kind in ("cycle", "rtl")
        )
        np.testing.assert_array_equal(dram, expected)
        assert (run.cycles, run.counters) == (rtl.cycles, rtl.counters), seed


@pytest.mark.parametrize("memory", MEMORIES.values(), ids=MEMORIES)
@pytest.mark.parametrize("seed", range(3))
def test_skipping_changes_nothing(seed, memory):
    check_skipping(random_decoded(seed), memory)


def test_a_run_takes_other_cycles_at_another_phase_of_the_refresh_timer():
    distinct = {
        timing_of(GUARDED, 3, replace(SLOW, refresh_phase=phase)).cycles for phase in range(0, 150, 30)
    }
    assert len(distinct) > 1


def test_each_limit_of_the_part_costs_cycles():
    """A longer time of the SDRAM never shortens the programs, and lengthens some."""
    programs = range(4)
    base = sum(timing_of(GUARDED, seed, SLOW).cycles for seed in programs)
    for name in ("precharge", "activate", "write_to_read", "refresh", "row_active", "row_cycle"):
        longer = replace(SLOW, **{name: getattr(SLOW, name) + 12})
        assert sum(timing_of(GUARDED, seed, longer).cycles for seed in programs) > base, name


def test_bursts_of_reads_and_writes_are_logged_in_order():
    bursts = timing_of(GUARDED, 5, SdramParameters(), log=True).log.bursts
    writes = bursts["client"] == Client.STORE
    assert writes.any()
    assert (~writes).any()
    for kind in (bursts[writes], bursts[~writes]):
        assert (kind["first"] > kind["accepted"]).all()
        assert (kind["last"] >= kind["first"]).all()
        assert (np.diff(kind["first"]) > 0).all()


def test_the_record_of_the_simulator_has_the_timing_s_names_in_order():
    assert list(SdramTiming.__annotations__) == list(sdram_timing(SdramParameters(), TINY))
