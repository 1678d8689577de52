"""Two layers chained through INP give what the plain model gives on every device, and the second layer moves
no DRAM for its inputs."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from generators.programs import IMAGE_BYTES, Program

from tests.programs.devices import DEVICES, device
from tests.programs.model import Model
from vdla.hw.spec import codec
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.vocabulary import Extension, MemoryType
from vdla.runtime.stream.builder import UOP_TENSOR, Loop, Rows, StreamBuilder
from vdla.sim.decoded import decode_stream
from vdla.sim.functional import counters
from vdla.sim.interleave import interleave
from vdla.sim.verify.verifier import VerificationError, verify

INP, WGT, ACC = MemoryType.INP, MemoryType.WGT, MemoryType.ACC
CONFIGS = (
    TINY.with_changes(name="fed", extensions=tuple(Extension), acc_ports=2, requantise_lanes=0),
    TINY.with_changes(name="fed by one port", block_in=8, block_out=8, extensions=tuple(Extension)),
)
IDS = [config.name for config in CONFIGS]
TENSORS = {
    UOP_TENSOR: 4096,
    "parameters": 6144,
    "weights": 8192,
    "inputs": 16384,
    "middle": 65536,
    "out": 131072,
}
TILE, TILES, DEPTH, FIRST = 24, 8, 4, 8
"""Elements of a tile, tiles, weight elements of a sum of each layer, the first accumulator of tiles."""


def product(builder: StreamBuilder, acc: int, inp: int, wgt: int) -> None:
    """Accumulate DEPTH products for each element of a tile."""
    rows = Loop(TILE, dst=1, src=1)
    builder.gemm(((acc, inp, wgt),), Loop(1), rows, overwrite=True)
    builder.gemm(((acc, inp, wgt + 1),), Loop(DEPTH - 1, wgt=1), rows)


@cache
def program_of(config, chained: bool) -> Program:
    """Return the program of two layers, tile by tile; the tensor between them stays on chip if `chained`."""
    builder, rows = StreamBuilder(config), Rows(1, TILE, TILE)
    builder.load(WGT, 0, "weights", 0, Rows(1, 2 * DEPTH, 2 * DEPTH))
    builder.load(ACC, 0, "parameters", 0, Rows(1, 8, 8))
    for tile in range(TILES):
        source, middle = (2 * (tile % 2) + half for half in (0, 1))
        builder.load(INP, source * TILE, "inputs", tile * TILE, rows)
        product(builder, FIRST + source * TILE, source * TILE, 0)
        if chained:
            builder.feed_back(FIRST + source * TILE, middle * TILE, rows, parameters=1)
        else:
            builder.store(FIRST + source * TILE, "middle", tile * TILE, rows, parameters=1)
            builder.load(INP, middle * TILE, "middle", tile * TILE, rows)
        product(builder, FIRST + middle * TILE, middle * TILE, DEPTH)
        builder.store(FIRST + middle * TILE, "out", tile * TILE, rows, parameters=2)
    stream = builder.finish()
    words = stream.relocated({name: TENSORS[name] for name in stream.tensors})
    image = np.random.default_rng(5).integers(0, 256, IMAGE_BYTES, dtype=np.uint8)
    uops = stream.uops.view(np.uint8)
    image[TENSORS[UOP_TENSOR] : TENSORS[UOP_TENSOR] + len(uops)] = uops
    instructions = tuple(codec.decode(int.from_bytes(word.tobytes(), "little"), config) for word in words)
    return Program(config, instructions, image, words.tobytes())


def decoded(program: Program):
    return decode_stream(
        np.frombuffer(program.stream, np.uint8).reshape(-1, program.config.instruction_bytes), program.config
    )


@pytest.mark.parametrize("config", CONFIGS, ids=IDS)
@pytest.mark.parametrize("on", DEVICES)
def test_layers_are_chained_through_inputs_as_the_model_says(on, config):
    program = program_of(config, True)
    expected = np.frombuffer(Model(config, bytearray(program.image)).run(program.instructions), np.uint8)
    _, image = program.run_on(device(on, config))
    np.testing.assert_array_equal(image, expected)
    _, other = program_of(config, False).run_on(device(on, config))
    np.testing.assert_array_equal(image[TENSORS["out"] :], other[TENSORS["out"] :])


@pytest.mark.parametrize(
    "memory", [MemoryParameters(), MemoryParameters(1, 1), MemoryParameters(20, 4, 3)], ids=str
)
@pytest.mark.parametrize("config", CONFIGS, ids=IDS)
def test_the_simulator_takes_the_cycles_of_the_rtl(config, memory):
    program = program_of(config, True)
    (simulated, _), (measured, _) = (program.run_on(device(on, config, memory)) for on in ("cycle", "rtl"))
    assert (simulated.cycles, simulated.counters) == (measured.cycles, measured.counters)


@pytest.mark.parametrize("config", CONFIGS, ids=IDS)
def test_a_chained_layer_saves_cycles_and_the_bytes_of_its_inputs(config):
    cycles, counts = {}, {}
    for chained in (False, True):
        program = program_of(config, chained)
        cycles[chained] = program.run_on(device("cycle", config))[0].cycles
        stream = decoded(program)
        counts[chained] = counters(stream, interleave(stream).order)
    between = TILES * TILE * config.element_bytes(INP)
    for name in ("INP_LOADED_BYTES", "OUT_STORED_BYTES"):
        assert counts[False][name] - counts[True][name] == between
    assert cycles[True] < 0.9 * cycles[False]


@pytest.mark.parametrize("config", CONFIGS, ids=IDS)
def test_every_token_that_orders_the_path_is_needed(config):
    """The builder's tokens make the stream safe. Without the pops of one unit it is refused: a product reads
    what is not written yet, or a LOAD or a STORE overwrites what is read yet."""
    program = program_of(config, True)
    dram = np.append(program.image, np.frombuffer(program.stream, np.uint8))
    verify(decoded(program), dram)
    broken = 0
    for index, item in enumerate(program.instructions):
        for flag in ("pop_prev", "pop_next"):
            if getattr(item, flag) and index > 8:
                changed = list(program.instructions)
                changed[index] = replace(item, **{flag: 0})
                stream = codec.to_bytes(changed, config)
                with pytest.raises(VerificationError):
                    verify(decoded(Program(config, tuple(changed), program.image, stream)), dram)
                broken += 1
    assert broken > TILES
