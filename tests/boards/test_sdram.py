"""A board's DRAM: the model has LiteDRAM's settings for SDR SDRAM, DDR3 has none; the converter of widths keeps
order and data of words, and has no idle cycles between beats."""

import random
from types import SimpleNamespace

import msgspec
import pytest
from litedram.common import LiteDRAMNativePort
from migen import Module, passive, run_simulation

from vdla.boards.description import Board, board_names, load_board
from vdla.boards.sdram import full_rate_converter, full_rate_port, memory_model, parameters_at

NARROW_BITS = 16
ADDRESS_BITS = 12
MOST_CYCLES = 5000  # of a simulation; 240 words take fewer than 1,500


def test_sdr_boards_have_a_model_at_their_clock():
    memory = load_board("ulx3s-85f").memory
    slow, fast = memory_model(memory, 50), memory_model(memory, 100)
    assert slow == parameters_at("MT48LC16M16", 50)
    assert fast.refresh_interval == pytest.approx(2 * slow.refresh_interval, abs=2)


def test_other_memories_have_no_model():
    kinds = {name: load_board(name).memory for name in board_names(Board)}
    assert {name for name, memory in kinds.items() if memory_model(memory, 60) is None} == {
        name for name, memory in kinds.items() if memory.kind == "DDR3"
    }
    half_rate = msgspec.structs.replace(kinds["ulx3s-85f"], rate="1:2")
    assert memory_model(half_rate, 60) is None


class Bench(Module):
    """A converter and its two ports."""

    def __init__(self, words: int) -> None:
        shift = words.bit_length() - 1
        self.wide = LiteDRAMNativePort("both", ADDRESS_BITS - shift, NARROW_BITS * words)
        self.narrow = LiteDRAMNativePort("both", ADDRESS_BITS, NARROW_BITS)
        self.submodules.converter = full_rate_converter(self.wide, self.narrow)


@passive
def asks(bench, commands, valid):
    """Drive the commands (address, write) into the wide port; `valid` tells whether to in a cycle.

    The simulation ends with `takes`, so a command that the converter does not take hangs no test.
    """
    for address, write in commands:
        while not valid():
            yield
        yield bench.wide.cmd.valid.eq(1)
        yield bench.wide.cmd.addr.eq(address)
        yield bench.wide.cmd.we.eq(write)
        yield
        while not (yield bench.wide.cmd.ready):
            yield
        yield bench.wide.cmd.valid.eq(0)


def takes(bench, count, ready, taken):
    """Take `count` commands of words, or those of MOST_CYCLES cycles, with their cycles; `ready` tells whether
    to in a cycle."""
    for cycle in range(1, MOST_CYCLES):
        if len(taken) == count:
            break
        yield bench.narrow.cmd.ready.eq(ready())
        yield
        if (yield bench.narrow.cmd.valid) and (yield bench.narrow.cmd.ready):
            taken.append((cycle, (yield bench.narrow.cmd.addr), (yield bench.narrow.cmd.we)))


def commands_of(words, commands, valid=lambda: 1, ready=lambda: 1):
    bench, taken = Bench(words), []
    run_simulation(bench, [asks(bench, commands, valid), takes(bench, len(commands) * words, ready, taken)])
    return taken


@pytest.mark.parametrize("words", [2, 4, 8])
@pytest.mark.parametrize("seed", range(4))
def test_each_command_becomes_the_commands_of_its_words_in_order(words, seed):
    draw = random.Random(seed)
    commands = [(draw.randrange((1 << ADDRESS_BITS) // words), draw.randrange(2)) for _ in range(30)]
    rate = draw.choice([0.3, 0.7, 1])
    taken = commands_of(words, commands, lambda: draw.random() < rate, lambda: draw.random() < 0.7)
    assert [(address, write) for _, address, write in taken] == [
        (address * words + place, write) for address, write in commands for place in range(words)
    ]


@pytest.mark.parametrize("words", [2, 4, 8])
def test_words_of_consecutive_beats_leave_without_idle_cycles(words):
    cycles = [cycle for cycle, _, _ in commands_of(words, [(place, place & 1) for place in range(10)])]
    assert cycles == list(range(cycles[0], cycles[0] + 10 * words))


def test_data_are_divided_and_joined_with_the_first_word_in_the_low_bits():
    bench, words, beats = Bench(4), [], []

    def writes():
        yield bench.wide.wdata.valid.eq(1)
        yield bench.wide.wdata.data.eq(0x4444_3333_2222_1111)
        yield bench.wide.wdata.we.eq(0b11_00_10_01)
        yield bench.narrow.wdata.ready.eq(1)
        for _ in range(4):
            yield
            words.append(((yield bench.narrow.wdata.data), (yield bench.narrow.wdata.we)))

    def reads():
        yield bench.wide.rdata.ready.eq(1)
        for word in (0x1111, 0x2222, 0x3333, 0x4444):
            yield bench.narrow.rdata.valid.eq(1)
            yield bench.narrow.rdata.data.eq(word)
            yield
        yield bench.narrow.rdata.valid.eq(0)
        for _ in range(MOST_CYCLES):
            if (yield bench.wide.rdata.valid):
                beats.append((yield bench.wide.rdata.data))
                break
            yield

    run_simulation(bench, [writes(), reads()])
    assert words == [(0x1111, 1), (0x2222, 2), (0x3333, 0), (0x4444, 3)]
    assert beats == [0x4444_3333_2222_1111]


@pytest.mark.parametrize(("wide", "narrow"), [(64, 64), (48, 16), (16, 64), (64, 24)])
def test_widths_that_do_not_divide_are_refused(wide, narrow):
    with pytest.raises(
        ValueError,
        match=f"a port of {wide} bits is not 2, 4, 8, ... times as wide as a port of {narrow} bits",
    ):
        full_rate_converter(LiteDRAMNativePort("both", 8, wide), LiteDRAMNativePort("both", 8, narrow))


@pytest.mark.parametrize(("bus_bits", "converted"), [(128, True), (64, False), (32, False)])
def test_only_a_narrower_controller_needs_the_converter(bus_bits, converted):
    def get_port(data_width=64):
        return LiteDRAMNativePort("both", 20, data_width)

    crossbar = SimpleNamespace(controller=SimpleNamespace(data_width=64), get_port=get_port)
    port, module = full_rate_port(crossbar, bus_bits)
    assert port.data_width == bus_bits
    assert bool(module.get_fragment().sync) == converted
    assert port.address_width == (19 if converted else 20)
