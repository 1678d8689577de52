"""GATHER in the simulators and the verifier: exact to the byte in what it reads, and in leaps as cycle by cycle."""

import numpy as np
import pytest

from tests.sim.helpers import CONFIG, INP, UOP, WGT, gemm, load, machine_with, run, store, stream_of
from tests.sim.timing.test_simulate import check_skipping
from vdla.hw.spec import codec, isa
from vdla.hw.spec.errors import AccessError, InvalidInstructionError
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.vocabulary import Extension, MemoryType
from vdla.sim.decoded import decode_stream
from vdla.sim.events import events_of
from vdla.sim.timing.simulate import simulate
from vdla.sim.verify.touch import BEYOND, CONFLICT
from vdla.sim.verify.verifier import findings

GATHERING = CONFIG.with_changes(extensions=tuple(Extension))  # an element has 4 bytes
IMAGE = np.zeros(1 << 14, np.uint8)
STORED = range(2048, 2052)


def gather(**fields: int) -> isa.Gather:
    return isa.Gather(memory_type=INP, **{"y_size": 1, "x_size": 2, "step": 3, **fields})


def decoded(*instructions: isa.Instruction, config=GATHERING):
    return decode_stream(stream_of((*instructions, isa.Finish()), config), config)


@pytest.mark.parametrize(
    ("fields", "read"),
    [
        ({"dram_base": 2041}, range(2041, 2048)),
        ({"dram_base": 2042}, range(2042, 2049)),
        ({"dram_base": 2051}, range(2051, 2058)),
        ({"dram_base": 2052}, range(2052, 2059)),
        ({"dram_base": 2043, "step": 8}, range(2043, 2055)),  # the bytes between two elements are read, too
        ({"dram_base": 2047, "x_size": 1}, range(2047, 2051)),
        (
            {"dram_base": 2043, "y_size": 2, "x_size": 1, "x_stride": 9},
            [*range(2043, 2047), *range(2052, 2056)],
        ),
    ],
)
def test_it_conflicts_with_a_store_in_the_bytes_that_both_touch_and_in_no_others(fields, read):
    """No token orders the two."""
    before = (load(UOP), load(INP), load(WGT, push_next=1), gemm(pop_prev=1, overwrite=1, push_next=1))
    program = decoded(*before, store(pop_prev=1, dram_base=STORED[0] // 4), gather(sram_base=8, **fields))
    report = findings(program, IMAGE)
    assert all((finding.kind, finding.memory) == (CONFLICT, None) for finding in report)
    assert [finding.element for finding in report] == sorted(set(STORED) & set(read))


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize(("base", "fits"), [(4096 - 7, True), (4096 - 6, False)])
def test_it_may_read_up_to_the_last_byte_of_dram(base, fits, native):
    machine, dram = machine_with(GATHERING), (np.arange(4096) % 251).astype(np.uint8)
    if fits:
        counts = run(machine, gather(dram_base=base), dram=dram, native=native)
        expected = dram[base + np.array([[0, 1, 2, 3], [3, 4, 5, 6]])].view(np.int8)
        np.testing.assert_array_equal(machine.pads.inp[:2, 0], expected)
        assert counts["INP_LOADED_BYTES"] == 7
        return
    with pytest.raises(AccessError, match=r"reaches DRAM bytes 0xffa\.\.0x1000, but DRAM has 0x1000 bytes"):
        run(machine, gather(dram_base=base), dram=dram, native=native)
    assert [finding.kind for finding in findings(decoded(gather(dram_base=base)), dram)] == [BEYOND]


@pytest.mark.parametrize("native", [True, False])
def test_it_must_fit_its_scratchpad(native):
    with pytest.raises(AccessError, match=r"reaches INP elements 12\.\.16, but INP holds 16"):
        run(
            machine_with(GATHERING),
            gather(sram_base=12, y_pad_0=1, y_pad_1=1, x_size=1, y_size=3),
            native=native,
        )


def test_it_costs_the_bytes_of_its_rows_and_a_write_for_each_element():
    program = decoded(gather(y_size=3, x_size=4, x_stride=50, y_pad_0=1))
    events = events_of(program)
    assert events.dram_bytes[0] == 3 * (3 * 3 + 4) + GATHERING.instruction_bytes
    assert events.writes[MemoryType.INP][0] == 4 * 4


def test_without_the_extension_it_is_no_instruction():
    word = codec.encode(gather(), GATHERING)
    stream = np.frombuffer(word.to_bytes(16, "little"), np.uint8).reshape(1, 16)
    program = decode_stream(stream, CONFIG)
    assert not program.valid[0]
    with pytest.raises(InvalidInstructionError, match=r"opcode 6 is not an instruction"):
        raise program.refusal(0)


LONG = TINY.with_changes(block_in=16, inp_buffer_bytes=1 << 15, extensions=tuple(Extension))


@pytest.mark.parametrize(
    "step", [0, 1, 3, 6, 8, 16, *(pytest.param(step, marks=pytest.mark.slow) for step in (9, 64, 255))]
)
@pytest.mark.parametrize(
    "memory", [MemoryParameters(), MemoryParameters(1, 1), MemoryParameters(20, 4, 3)], ids=str
)
def test_skipping_changes_nothing(step, memory):
    rows = isa.Gather(memory_type=INP, dram_base=5, y_size=3, x_size=200, x_stride=1013, step=step, y_pad_1=1)
    other = isa.Load(memory_type=INP, dram_base=7, y_size=2, x_size=90, x_stride=91)
    check_skipping(decoded(rows, other, rows, config=LONG), memory)


@pytest.mark.parametrize(("step", "cycles"), [(0, 1000), (3, 1000), (8, 1000), (16, 2000), (64, 7994)])
def test_it_writes_an_element_a_cycle_or_takes_a_beat(step, cycles):
    """Beats have 8 bytes, elements 16; memory's latency and the first beats come in addition."""
    rows = isa.Gather(memory_type=INP, y_size=1, x_size=1000, step=step)
    single, double = (simulate(decoded(*[rows] * count, config=LONG)).cycles for count in (1, 2))
    assert cycles <= double - single <= cycles + 3
