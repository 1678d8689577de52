"""The RTL device looks at signals however fast the model is; broken programs stop it soon, with the right error."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from tests.programs.cases import CASES, RESULT, WGT, load
from vdla.hw.spec import codec, isa
from vdla.hw.spec.errors import (
    AccessError,
    CycleLimitError,
    DeadlockError,
    DeviceError,
    InvalidInstructionError,
    UnfinishedError,
)
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.registers import OFFSETS, READ_CYCLES, Control, Fault
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.devices import registers
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.devices.rtl import Optimise, RtlDevice
from vdla.runtime.devices.rtl import device as rtl
from vdla.runtime.devices.rtl.design import Design
from vdla.runtime.devices.rtl.model import Protocol
from vdla.sim.decoded import decode_stream
from vdla.sim.timing.simulate import simulate

DRAM_BYTES, STREAM, RESULT_BYTES = 1 << 17, 1 << 16 | 1 << 15, 16 * 4
BOUND_CYCLES = 20_000
GOOD = CASES["gemm"]
INP_LOAD, WGT_LOAD, FILL, UOPS, GEMM, JOIN, STORE, FINISH = range(len(GOOD))


class Clock:
    """A model that takes `seconds` for each cycle, and the clock that shows it."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.now, self.polled = seconds, 0.0, []
        self.cycle = 0

    def poll(self, register: int, mask: int, cycles: int) -> bool:
        self.polled.append(cycles)
        self.now += cycles * self.seconds
        return False


@pytest.mark.parametrize(
    ("seconds", "settled"), [(1e-6, 64_000), (1e-3, 62), (1.0, 1)], ids=["fast", "slow", "a cycle a second"]
)
def test_chunks_grow_and_shrink_to_the_time_between_two_looks(monkeypatch, seconds, settled):
    model = Clock(seconds)
    monkeypatch.setattr(rtl, "time", SimpleNamespace(perf_counter=lambda: model.now))
    chunk = rtl._Chunk()
    for _ in range(20):
        assert not chunk.poll(model, None)
    assert model.polled[0] == rtl.FIRST_CHUNK_CYCLES
    assert model.polled[-3:] == [settled] * 3


def test_a_chunk_ends_with_the_run(monkeypatch):
    model = Clock(1e-6)
    monkeypatch.setattr(rtl, "time", SimpleNamespace(perf_counter=lambda: model.now))
    rtl._Chunk().poll(model, 10)
    assert model.polled == [10]


STEP_COUNTERS = ("GEMM_STEPS", "ALU_STEPS")


class Hardware(Clock):
    """A model whose registers and memory do what a test says.

    Args:
        steps: the step counters at each look.
        transfers: the cycles in which memory moves something.
    """

    def __init__(self, steps=(), transfers=(), done=None) -> None:
        super().__init__(0.0)
        self.steps, self.transfers, self.done = iter(steps), transfers, done
        self.looks = 0

    def poll(self, register: int, mask: int, cycles: int) -> bool:
        end = self.cycle + cycles
        self.cycle = end if self.done is None else min(end, self.done)
        return self.done is not None and end >= self.done

    @property
    def last_transfer(self) -> int:
        return max((at for at in self.transfers if at < self.cycle), default=0)

    def read(self, offset: int, cycles: int) -> int:
        """Only step counters are read, in turn, each in the cycles that it takes."""
        name = STEP_COUNTERS[self.looks % 2]
        assert (offset, cycles) == (OFFSETS[name], READ_CYCLES[name])
        self.looks += 1
        return next(self.steps)


WATCHED = rtl.WATCHDOG_CYCLES


@pytest.mark.parametrize(
    ("steps", "transfers", "looks"),
    [
        ((0, 0), (), 1),  # no step since the start
        ((3, 0, 3, 0), (), 2),
        ((3, 0, 3, 4, 3, 4), (), 3),
        ((3, 0, 4, 0, 4, 0), (), 3),
    ],
)
def test_the_watchdog_ends_a_run_when_neither_memory_nor_steps_go_on(steps, transfers, looks):
    model = Hardware(steps, transfers)
    watchdog = rtl._Watchdog(model, 0)
    for _ in range(looks - 1):
        model.cycle += WATCHED - 1
        watchdog.check()
        model.cycle += 1
        watchdog.check()
    model.cycle += WATCHED - 1
    watchdog.check()
    model.cycle += 1
    with pytest.raises(DeviceError, match="neither finished nor done anything for 10000000 cycles"):
        watchdog.check()
    assert watchdog.has_read


def test_the_watchdog_looks_inside_only_when_memory_rests():
    model = Hardware((), (5, WATCHED - 1))
    watchdog = rtl._Watchdog(model, 0)
    for model.cycle in (WATCHED, 2 * WATCHED - 2):
        watchdog.check()
    assert not watchdog.has_read


def device_with(model):
    """Return an RTL device around a model."""
    device = object.__new__(rtl.RtlDevice)
    device._model = model
    return device


@pytest.mark.parametrize("done", [101, 102, 3000])
def test_the_cycles_of_a_run_are_those_from_its_start_to_done(done):
    model = Hardware(done=done)
    model.cycle = 100
    assert device_with(model)._step_until_done(100, None) == done - 1 - 100


@pytest.mark.parametrize(("limit", "ends"), [(50, True), (49, True), (48, False)])
def test_a_run_may_take_its_limit_of_cycles_and_no_more(limit, ends):
    model = Hardware(done=150)
    model.cycle = 100
    if ends:
        assert device_with(model)._step_until_done(100, limit) == 49
    else:
        with pytest.raises(CycleLimitError, match="stopped at its limit of 48 cycles; it had not finished"):
            device_with(model)._step_until_done(100, limit)
        assert model.cycle == 149


def test_a_register_that_counts_otherwise_than_the_clock_is_a_defect():
    device = device_with(SimpleNamespace(protocol=Protocol(0)))
    device._check_hardware(7, 7)
    device._check_hardware(7, None)
    with pytest.raises(DeviceError, match="register CYCLES says 7, but 8 cycles passed from start to done"):
        device._check_hardware(7, 8)
    device._model.protocol = Protocol.BURST_LENGTH
    with pytest.raises(DeviceError, match=r"contract of its memory port \(BURST_LENGTH\)"):
        device._check_hardware(7, 7)


def test_registers_of_two_words_are_written_and_read_low_word_first():
    written, registers = [], {OFFSETS["CYCLES"]: 5, OFFSETS["CYCLES_HIGH"]: 3}
    model = SimpleNamespace(
        write=lambda offset, value: written.append((offset, value)),
        restart=lambda: written.append("restart of the memory"),
        cycle=42,
        read=lambda offset, cycles: registers[offset],
        protocol=Protocol(0),
    )
    device = device_with(model)
    assert device._start((7 << 32) + 9, 12) == 42
    names = ("STREAM_ADDRESS", "STREAM_ADDRESS_HIGH", "STREAM_COUNT", "CONTROL")
    assert written == [
        *((OFFSETS[name], value) for name, value in zip(names, (9, 7, 12, Control.START), strict=True)),
        "restart of the memory",
    ]
    device._step_until_done = lambda start, limit: None
    assert device._measure(0, None) == (3 << 32) + 5


@pytest.fixture(scope="module")
def image():
    values = np.random.default_rng(1).integers(0, 256, DRAM_BYTES, np.uint8)
    uops = [isa.MicroOp(dst=k, src=2 * k + 1, wgt=k) for k in range(4)]
    values[4096 : 4096 + 16] = np.frombuffer(codec.uops_to_bytes(uops, TINY), np.uint8)
    return values


@pytest.fixture(scope="module")
def device():
    return RtlDevice(TINY, DRAM_BYTES, optimise=Optimise.BUILD)


def run(device, image, words, cycle_limit=BOUND_CYCLES):
    """Run encoded instructions from `image`; return the bytes of the result and the run's cost."""
    device.copy_in(0, image)
    device.copy_in(STREAM, b"".join(word.to_bytes(16, "little") for word in words))
    cost = device.run(STREAM, len(words), cycle_limit=cycle_limit)
    return device.copy_out(RESULT, RESULT_BYTES), cost


def words_of(instructions) -> list[int]:
    raw = codec.to_bytes(instructions, TINY)
    return [int.from_bytes(raw[at : at + 16], "little") for at in range(0, len(raw), 16)]


def changed(at: int, **fields) -> list[int]:
    """Return the good program with other fields in one instruction."""
    program = list(GOOD)
    program[at] = replace(program[at], **fields)
    return words_of(program)


def with_bits(at: int, low: int, width: int, value: int) -> list[int]:
    """Return the good program with other bits in one encoded instruction."""
    words = words_of(GOOD)
    words[at] = words[at] & ~(((1 << width) - 1) << low) | value << low
    return words


MEMORY_TYPE_BIT = 7
LAST = TINY.depth(MemoryType.INP) - 1
FAULTS = {
    "lost token from load to compute": (changed(WGT_LOAD, push_next=0), DeadlockError, None),
    "lost token from compute to store": (changed(JOIN, push_next=0), DeadlockError, None),
    "lost token from store to compute": (changed(STORE, push_prev=0), DeadlockError, None),
    "opcode 5": (with_bits(GEMM, 0, 3, 5), InvalidInstructionError, GEMM),
    "opcode 7, first": (with_bits(INP_LOAD, 0, 3, 7), InvalidInstructionError, INP_LOAD),
    "opcode 6, last": (with_bits(FINISH, 0, 3, 6), InvalidInstructionError, FINISH),
    "memory type 6": (with_bits(WGT_LOAD, MEMORY_TYPE_BIT, 3, 6), InvalidInstructionError, WGT_LOAD),
    "memory type 7": (with_bits(FILL, MEMORY_TYPE_BIT, 3, 7), InvalidInstructionError, FILL),
    "LOAD past the end of a scratchpad": (changed(INP_LOAD, sram_base=LAST), AccessError, None),
    "STORE past the end of a scratchpad": (
        changed(STORE, sram_base=TINY.depth(MemoryType.OUT) - 8),
        AccessError,
        None,
    ),
    "GEMM past the end of the accumulators": (changed(GEMM, iter_in=2, dst_factor_in=511), AccessError, None),
    "GEMM past the end of the inputs": (changed(GEMM, iter_in=2, src_factor_in=1023), AccessError, None),
    "GEMM past the end of the weights": (changed(GEMM, iter_in=2, wgt_factor_in=255), AccessError, None),
    "GEMM past the end of the micro-ops": (changed(GEMM, uop_begin=511, uop_end=513), AccessError, None),
    "LOAD past the end of DRAM": (changed(WGT_LOAD, dram_base=DRAM_BYTES // 16 - 4), AccessError, None),
    "LOAD far outside DRAM": (changed(INP_LOAD, dram_base=0xFFFF_FF00), AccessError, None),
    "STORE past the end of DRAM": (changed(STORE, dram_base=DRAM_BYTES // 4 - 2), AccessError, None),
    "no FINISH": (words_of(GOOD[:FINISH]), UnfinishedError, None),
    "no instruction": ([], UnfinishedError, None),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_broken_program_stops_with_the_right_error_and_the_next_one_runs(device, image, name):
    words, kind, index = FAULTS[name]
    expected, _ = run(FunctionalDevice(TINY, DRAM_BYTES), image, words_of(GOOD))
    with pytest.raises(kind) as caught:
        run(device, image, words)
    assert type(caught.value) is kind
    assert caught.value.index == index
    result, _ = run(device, image, words_of(GOOD))
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("name", FAULTS)
def test_the_functional_device_raises_the_same(image, name):
    words, kind, _ = FAULTS[name]
    with pytest.raises(kind) as caught:
        run(FunctionalDevice(TINY, DRAM_BYTES), image, words)
    assert type(caught.value) is kind


def test_swapped_addresses_show_in_the_result(device, image):
    expected, _ = run(device, image, words_of(GOOD))
    program = list(GOOD)
    program[INP_LOAD] = replace(GOOD[INP_LOAD], dram_base=GOOD[WGT_LOAD].dram_base)
    program[WGT_LOAD] = replace(GOOD[WGT_LOAD], dram_base=GOOD[INP_LOAD].dram_base)
    result, _ = run(device, image, words_of(program))
    assert not np.array_equal(result, expected)


def test_the_message_names_instruction_and_reason(device, image):
    words = with_bits(GEMM, 0, 3, 5)
    with pytest.raises(
        InvalidInstructionError, match=rf"^instruction {GEMM} \({words[GEMM]:#034x}\) has no meaning: "
    ):
        run(device, image, words)


def test_the_cycle_limit_is_exact(device, image):
    words = words_of(GOOD)
    _, cost = run(device, image, words)
    _, again = run(device, image, words, cycle_limit=cost.cycles)
    assert again.cycles == cost.cycles
    with pytest.raises(CycleLimitError, match=f"stopped at its limit of {cost.cycles - 1} cycles"):
        run(device, image, words, cycle_limit=cost.cycles - 1)
    _, again = run(device, image, words)
    assert again.cycles == cost.cycles


@pytest.mark.parametrize("limit", [0, 1, 50, 300])
def test_a_run_that_was_cut_off_leaves_a_working_device(device, image, limit):
    expected, cost = run(device, image, words_of(GOOD))
    with pytest.raises(CycleLimitError):
        run(device, image, [*words_of([load(WGT, x_size=64)] * 40), *words_of(GOOD)], cycle_limit=limit)
    result, again = run(device, image, words_of(GOOD))
    np.testing.assert_array_equal(result, expected)
    assert again.cycles == cost.cycles


@pytest.mark.parametrize(
    ("address", "count", "kind"),
    [
        (8, 1, DeviceError),
        (DRAM_BYTES - 16, 2, AccessError),
        (1 << 40, 1, AccessError),
        (-16, 1, AccessError),
    ],
)
def test_a_stream_that_cannot_be_is_refused(device, address, count, kind):
    with pytest.raises(kind):
        device.run(address, count)


def core_that_reads(value: int) -> Design:
    """Return a core all of whose registers hold `value`."""
    ports = (
        "input clk, rst, input [{high}:0] registers__address, input registers__write, "
        "input [31:0] registers__write_data, output [31:0] registers__read_data, "
        "output memory__request__valid, input memory__request__ready, output [127:0] "
        "memory__request__payload, "
        "output memory__write_data__valid, input memory__write_data__ready, "
        "output [127:0] memory__write_data__payload, input memory__read_data__valid, "
        "output memory__read_data__ready, input [63:0] memory__read_data__payload, "
        "input memory__write_done, memory__error, output interrupt"
    )
    high = (max(OFFSETS.values()) + 3).bit_length() - 1
    text = (
        f"module vdla_core({ports.format(high=high)});\n  assign registers__read_data = {value};\n"
        "  assign memory__request__valid = 0;\n  assign memory__write_data__valid = 0;\nendmodule\n"
    )
    return Design(lambda config: text, lambda: f"core that reads {value}")


def test_hardware_that_hangs_is_stopped(monkeypatch):
    monkeypatch.setattr(rtl, "FIRST_CHUNK_CYCLES", 100)
    monkeypatch.setattr(rtl, "WATCHDOG_CYCLES", 1000)
    device = RtlDevice(TINY, DRAM_BYTES, optimise=Optimise.BUILD, design=core_that_reads(0))
    with pytest.raises(DeviceError, match="neither finished nor done anything for 1000 cycles"):
        device.run(STREAM, 1)


def test_hardware_that_counts_its_cycles_wrong_is_caught():
    device = RtlDevice(TINY, DRAM_BYTES, optimise=Optimise.BUILD, design=core_that_reads(2))
    with pytest.raises(
        DeviceError, match=r"CYCLES says 8589934594, but \d+ cycles passed.*defect of the hardware"
    ):
        device.run(STREAM, 1)


@pytest.mark.parametrize("name", FAULTS)
def test_the_simulator_stops_in_the_same_cycle_for_the_same_reason(device, image, name, monkeypatch):
    """Accesses that reach too far do not change the time, so only what stops a run is compared."""
    words, _, _ = FAULTS[name]
    seen = {}
    monkeypatch.setattr(
        registers,
        "error_of",
        lambda fault, index, cycles, *_: seen.update(fault=fault, cycles=cycles) or DeviceError("seen"),
    )
    with pytest.raises(DeviceError, match="seen"):
        run(device, image, words)
    stream = np.frombuffer(b"".join(word.to_bytes(16, "little") for word in words), np.uint8).reshape(-1, 16)
    timing = simulate(decode_stream(stream, TINY), stream_address=STREAM)
    assert timing.cycles == seen["cycles"]
    assert timing.fault == seen["fault"] & ~(Fault.SRAM_OVERRUN | Fault.MEMORY_ERROR)


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("arithmetic", [True, False])
def test_the_cycle_device_raises_the_same(image, name, arithmetic):
    words, kind, _ = FAULTS[name]
    device = CycleDevice(TINY, DRAM_BYTES, arithmetic=arithmetic)
    if kind is AccessError and not arithmetic:
        run(device, image, words)
        return
    with pytest.raises(kind) as caught:
        run(device, image, words)
    assert type(caught.value) is kind
