"""STOREs with every combination of their steps, on random and extreme contents, against the plain model."""

from itertools import product

import numpy as np
import pytest

from tests.programs.model import Model
from tests.sim.helpers import ACC, CONFIG, INP, RES, TABLE, machine_with, run, store
from vdla.hw.spec.isa import TABLE_ELEMENTS
from vdla.hw.spec.numerics import requantise_parameters, residual_parameters
from vdla.hw.spec.vocabulary import Extension
from vdla.sim.native.build import emit_module
from vdla.sim.native.dot import Dot

FURTHER = CONFIG.with_changes(extensions=tuple(Extension), res_buffer_bytes=64)
CONFIGS = {
    "one value": FURTHER.with_changes(block_out=1, acc_buffer_bytes=64, res_buffer_bytes=16),
    "four values": FURTHER,
    "several batches": FURTHER.with_changes(batch=2, acc_buffer_bytes=512, res_buffer_bytes=128),
    "more values than are stored at a time": FURTHER.with_changes(
        batch=2, block_out=16, acc_buffer_bytes=2048, res_buffer_bytes=512
    ),
    "16-bit accumulators": FURTHER.with_changes(acc_bits=16, acc_buffer_bytes=128),
}
TABLES, RESIDUALS, SETS = (0, 1, 2), (0, 1, 9), (0, 2)  # 0: the STORE names none


def random_parameters(rng: np.random.Generator, count: int, factors: tuple[int, int] | None) -> np.ndarray:
    """Return int64[4, count]: parameters of the requantisation, or with `factors` of a residual."""
    parameters = (
        rng.integers(-100, 100, count),
        rng.integers(1, 1 << 16, count),
        rng.choice([0, 1, 7, 16, 22], count),
        rng.choice([-128, -3, 0, 127], count),
        rng.choice([-128, -100, 0], count),
        rng.choice([1, 100, 127], count),
    )
    if factors is None:
        return np.array(requantise_parameters(*parameters))
    addend, _, shift, zero, least, greatest = (int(part[0]) for part in parameters)
    residual = residual_parameters(addend, factors, shift % 8, zero, least, greatest)
    return np.repeat(np.array(residual)[:, None], count, axis=1)


def random_contents(config, seed: int) -> dict[str, np.ndarray]:
    """Return contents of ACC, TABLE and RES: parameters of residuals and of one set, then accumulators."""
    rng, count = np.random.default_rng(seed), config.batch * config.block_out
    factors = [(1, 1), (-1, 1), (1, -32768), (32767, -3)][seed % 4]
    extremes = [-(1 << config.acc_bits - 1), -129, -128, -1, 0, 127, 128, (1 << config.acc_bits - 1) - 1]
    values = rng.choice([*extremes, *range(-300, 300)], (config.depth(ACC) - 8, count))
    acc = np.concatenate([random_parameters(rng, count, given) for given in (factors, None)] + [values])
    return {
        "acc": (acc + (1 << config.acc_bits - 1)) % (1 << config.acc_bits) - (1 << config.acc_bits - 1),
        "table": rng.integers(-128, 128, (2 * TABLE_ELEMENTS, 4)),
        "res": rng.choice([-128, -1, 0, 1, 127, *range(-50, 50)], (config.depth(RES), count)),
    }


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("native", [True, False], ids=["native", "reference"])
@pytest.mark.parametrize("name", CONFIGS)
def test_a_store_sends_values_through_the_steps_that_it_names(name, native, seed):
    config, contents = CONFIGS[name], random_contents(CONFIGS[name], seed)
    for parameters, table, residual in product(SETS, TABLES, RESIDUALS):
        item = store(
            sram_base=8,
            y_size=2,
            x_size=3,
            x_stride=4,
            dram_base=1,
            parameters=parameters,
            table=table if parameters else 0,
            residual=residual if parameters else 0,
        )
        machine, dram = machine_with(config, **contents), np.full(1024, 9, np.uint8)
        run(machine, item, dram=dram, native=native)
        model = Model(config, bytearray([9] * 1024))
        for memory in (ACC, TABLE, RES):
            model.pads[memory][: len(contents[memory.name.lower()])] = contents[memory.name.lower()].tolist()
        assert dram.tobytes() == bytes(model.run([item])), item


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("native", [True, False], ids=["native", "reference"])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_a_store_into_inputs_writes_what_it_would_write_into_dram_and_leaves_that_alone(bits, native, seed):
    config = FURTHER.with_changes(block_in=8, block_out=8, inp_bits=bits, inp_buffer_bytes=128, batch=2)
    config = config.with_changes(acc_buffer_bytes=1024, wgt_buffer_bytes=256, res_buffer_bytes=256)
    contents = random_contents(config, seed)
    for parameters, table, residual in product(SETS, TABLES, RESIDUALS):
        steps = {"table": table, "residual": residual} if parameters else {}
        item = store(
            memory_type=INP,
            sram_base=8,
            y_size=2,
            x_size=2,
            x_stride=seed,
            dram_base=1,
            parameters=parameters,
            **steps,
        )
        machine, dram = machine_with(config, **contents), np.full(1024, 9, np.uint8)
        run(machine, item, dram=dram, native=native)
        model = Model(config, bytearray(1024))
        for memory in (ACC, TABLE, RES):
            model.pads[memory][: len(contents[memory.name.lower()])] = contents[memory.name.lower()].tolist()
        model.run([item])
        assert (dram == 9).all()
        assert machine.pads.inp.reshape(config.depth(INP), -1).tolist() == model.pads[INP], item
        prepared = machine.pads.inp_operand.copy()
        machine.pads.refresh_operands()
        assert (machine.pads.inp_operand == prepared).all()


def code_of_stores(*extensions: Extension) -> str:
    """Return the IR of the STORE of an accelerator with some extensions."""
    text = str(emit_module(FURTHER.with_changes(extensions=extensions), Dot(4, False)))
    return text.partition('@"store"(')[2].partition("\n}\n")[0]


def test_code_of_a_store_has_the_steps_of_its_accelerator_alone():
    """Requantisation shifts and widens, a table is read by bytes, a residual adds a second product."""
    plain, scaled, table, residual = (
        code_of_stores(*extensions)
        for extensions in (
            (),
            (Extension.REQUANTISE,),
            (Extension.REQUANTISE, Extension.TABLE),
            (Extension.REQUANTISE, Extension.RESIDUAL),
        )
    )
    whole = code_of_stores(Extension.REQUANTISE, Extension.TABLE, Extension.RESIDUAL)
    assert "sext" not in plain
    assert "sext" in scaled
    lengths = [len(text.splitlines()) for text in (plain, scaled, table, whole)]
    assert lengths == sorted(set(lengths))
    assert len(scaled.splitlines()) < len(residual.splitlines()) < len(whole.splitlines())
    scales = [text.count("ashr <") for text in (plain, scaled, table, residual, whole)]
    assert scales == [0, 1, 2, 3, 3]
