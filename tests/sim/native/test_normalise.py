"""NORMALISEs on random and extreme contents and statistics, by native code and NumPy, against the plain
model."""

from itertools import product

import numpy as np
import pytest

from tests.programs.model import Model
from tests.sim.helpers import ACC, CONFIG, INP, OUT, TABLE, machine_with, run
from vdla.hw.spec import isa
from vdla.hw.spec.errors import AccessError
from vdla.hw.spec.normalisation import NormalOperands, RowStatistics, normal_parameters
from vdla.hw.spec.numerics import requantise_parameters
from vdla.hw.spec.vocabulary import Extension, Statistic

FURTHER = CONFIG.with_changes(extensions=tuple(Extension), res_buffer_bytes=64, table_buffer_bytes=1024)
CONFIGS = {
    "one value": FURTHER.with_changes(block_out=1, acc_buffer_bytes=64, res_buffer_bytes=16),
    "four values": FURTHER.with_changes(acc_buffer_bytes=1024),
    "more values than are read at a time": FURTHER.with_changes(
        block_in=32, block_out=32, acc_buffer_bytes=4096, inp_buffer_bytes=1024, wgt_buffer_bytes=2048
    ),
}
BASE = 12  # the first accumulators that are no parameters


def random_words(rng: np.random.Generator, count: int) -> list[np.ndarray]:
    """Return int64[4, count] three times: parameters of normalisation, and of requantisation twice."""
    size = int(rng.choice([1, 3, 64, 768, 65535]))
    exponent = size.bit_length() - 1
    normal = NormalOperands(
        rng.choice([0, 1 << 17, -(1 << 31), (1 << 31) - 1, 12345], count),
        rng.choice([-32768, 32767, 1, 0, 300, -5], count),
        size,
        exponent,
        int(rng.choice([0, round((1 << 16 + exponent) / size) & 0xFFFF])),
        int(rng.choice([0, 1, 1 << 20, (1 << 32) - 1])),
    )
    words = normal_parameters(normal)
    sets = [np.array([np.broadcast_to(word, count) for word in words], np.int64)]
    for _ in range(2):
        parameters = requantise_parameters(
            rng.integers(-100, 100, count),
            rng.integers(1, 1 << 16, count),
            rng.choice([0, 7, 16], count),
            rng.choice([-128, -3, 0, 127], count),
            rng.choice([-128, -100], count),
            rng.choice([100, 127], count),
        )
        sets.append(np.array(parameters))
        sets[-1][3] |= rng.integers(0, 2, count) << 16
    return sets


def random_contents(config, seed: int) -> dict[str, np.ndarray]:
    """Return contents of ACC and TABLE."""
    rng = np.random.default_rng(seed)
    values = rng.choice([-(1 << 31), -129, -128, -1, 0, 127, 128, (1 << 31) - 1, *range(-300, 300)],
                        (config.depth(ACC) - BASE, config.block_out))  # fmt: skip
    acc = np.concatenate([*random_words(rng, config.block_out), values])
    return {
        "acc": (acc + (1 << 31)) % (1 << 32) - (1 << 31),
        "table": rng.integers(-128, 128, (3 * isa.TABLE_ELEMENTS, 4)),
    }


def random_rows(seed: int) -> list[RowStatistics]:
    """Return statistics of all rows."""
    rng = np.random.default_rng(seed)
    return [
        RowStatistics(
            int(rng.integers(-128, 128)),
            int(rng.integers(1 << 32)) >> int(rng.integers(33)),
            int(rng.integers(-(1 << 23), 1 << 23)) >> int(rng.integers(24)),
            int(rng.integers(1 << 32)) >> int(rng.integers(33)),
        )
        for _ in range(isa.NORMAL_ROWS)
    ]


def pair(config, seed: int):
    """Return a machine and a model with the same contents."""
    contents, rows = random_contents(config, seed), random_rows(seed)
    machine, model = machine_with(config, **contents), Model(config, bytearray([9] * 4096))
    columns = zip(*rows, strict=True)
    for name, column in zip(("greatest", "powers", "totals", "squares"), columns, strict=True):
        getattr(machine.pads, name)[:] = column
    for memory in (ACC, TABLE):
        given = contents[memory.name.lower()].tolist()
        model.pads[memory][: len(given)] = given
    model.rows = rows
    return machine, model


def rows_of(machine) -> list[RowStatistics]:
    """Return the statistics of all rows."""
    pads = machine.pads
    return [
        RowStatistics(*map(int, row))
        for row in zip(pads.greatest, pads.powers, pads.totals, pads.squares, strict=True)
    ]


ROWS = {"memory_type": OUT, "sram_base": BASE, "y_size": 2, "x_size": 2, "x_stride": 3, "dram_base": 1}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("native", [True, False], ids=["native", "reference"])
@pytest.mark.parametrize("name", CONFIGS)
def test_every_statistic_is_gathered_and_used(name, native, seed):
    machine, model = pair(CONFIGS[name], seed)
    for statistic, normal, table, parameters, anew in product(
        Statistic, (0, 1), (0, 1, 2), (0, 2, 3), (0, 1)
    ):
        item = isa.Normalise(
            **ROWS, statistic=statistic, normal=normal, table=table, parameters=parameters, anew=anew
        )
        dram = np.full(4096, 9, np.uint8)
        model.dram = bytearray(dram)
        run(machine, item, dram=dram, native=native)
        assert dram.tobytes() == bytes(model.run([item])), item
        assert rows_of(machine) == model.rows, item


@pytest.mark.parametrize("native", [True, False], ids=["native", "reference"])
def test_outputs_into_inputs_leave_dram_alone_and_are_prepared_for_the_array(native):
    for name, statistic in product(["four values", "more values than are read at a time"], Statistic):
        machine, model = pair(CONFIGS[name], 3)
        dram = np.full(4096, 9, np.uint8)
        item = isa.Normalise(**ROWS | {"memory_type": INP}, statistic=statistic, normal=1, parameters=2)
        run(machine, item, dram=dram, native=native)
        model.run([item])
        assert (dram == 9).all()
        assert machine.pads.inp.reshape(machine.config.depth(INP), -1).tolist() == model.pads[INP]
        prepared = machine.pads.inp_operand.copy()
        machine.pads.refresh_operands()
        assert (machine.pads.inp_operand == prepared).all()


@pytest.mark.parametrize("native", [True, False], ids=["native", "reference"])
@pytest.mark.parametrize("anew", [0, 1])
def test_the_rows_wrap_behind_256_elements(native, anew):
    config = CONFIGS["four values"].with_changes(acc_buffer_bytes=8192)
    for statistic in Statistic:
        machine, model = pair(config, 1)
        rows = {**ROWS, "y_size": 3, "x_size": 150, "x_stride": 150}
        items = [
            isa.Normalise(**rows, statistic=statistic, anew=anew),
            isa.Normalise(**rows, statistic=statistic, normal=1),
        ]
        dram = np.full(4096, 9, np.uint8)
        run(machine, *items, dram=dram, native=native)
        assert dram.tobytes() == bytes(model.run(items))
        assert rows_of(machine) == model.rows


BEYOND = {
    "accumulators": ({"sram_base": 61}, "reaches OUT elements 61..64, but OUT holds 64"),
    "parameters": ({"parameters": 17}, "reaches ACC elements 64..67, but ACC holds 64"),
    "a table": ({"table": 4}, "reaches TABLE elements 192..319, but TABLE holds 256"),
    "parameters of normalisation": ({"normal": 17}, "reaches ACC elements 64..67, but ACC holds 64"),
    "inputs": ({"normal": 1, "memory_type": INP, "dram_base": 14}, "reaches INP elements 14..18"),
    "DRAM": ({"normal": 1, "dram_base": 1021}, "reaches DRAM bytes 0xff4..0x1007"),
}


@pytest.mark.parametrize("native", [True, False], ids=["native", "reference"])
@pytest.mark.parametrize("name", BEYOND)
def test_what_reaches_beyond_a_memory_is_refused_and_writes_nothing(name, native):
    fields, message = BEYOND[name]
    machine, model = pair(CONFIGS["four values"], 0)
    dram = np.full(4096, 9, np.uint8)
    with pytest.raises(AccessError, match=message):
        run(machine, isa.Normalise(**ROWS | fields, anew=1), dram=dram, native=native)
    assert (dram == 9).all()
    assert rows_of(machine) == model.rows


@pytest.mark.parametrize("native", [True, False], ids=["native", "reference"])
def test_what_a_gathering_normalise_would_write_may_lie_anywhere(native):
    machine, model = pair(CONFIGS["four values"], 0)
    for memory in (INP, OUT):
        item = isa.Normalise(**ROWS | {"memory_type": memory, "dram_base": 1 << 31}, anew=1)
        run(machine, item, native=native)
        model.run([item])
    assert rows_of(machine) == model.rows


def test_statistics_last_from_run_to_run_until_the_memories_are_cleared():
    machine, model = pair(CONFIGS["four values"], 0)
    run(machine, isa.Normalise())
    assert rows_of(machine) == model.rows
    machine.pads.clear()
    assert rows_of(machine) == [RowStatistics(0)] * isa.NORMAL_ROWS
