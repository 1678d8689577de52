"""Linking: streams with weights prefetched have the same results in fewer cycles, whatever the layers are."""

import random

import numpy as np
import pytest
from generators.expected import convolved

from vdla.compiler.codegen.choose import cycles_of
from vdla.compiler.codegen.stream import emit
from vdla.compiler.network import build as linking
from vdla.compiler.network.build import with_prefetch
from vdla.compiler.operands.address_map import Operand
from vdla.compiler.tasks.convolution import schedule_conv2d
from vdla.compiler.te.operators.convolution import blocked_weights, conv2d
from vdla.compiler.te.operators.narrowing import Scale, blocked_parameters
from vdla.compiler.te.operators.sizes import Convolution
from vdla.hw.spec.memory import REFERENCE_MEMORY, MemoryParameters
from vdla.hw.spec.presets import DEFAULT
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.layout import blocked, unblocked
from vdla.runtime.requantise import parameter_words, requantise
from vdla.runtime.session.launch import place
from vdla.runtime.stream.builder import StreamBuilder
from vdla.runtime.stream.prefetch import prefetch
from vdla.sim.decoded import decode_stream

MEMORIES = (REFERENCE_MEMORY, MemoryParameters(cycles_per_beat=2), MemoryParameters(latency=400))
SEEDS = range(4)
WIDTH = 7  # of images


def layers_of(seed: int) -> list[Convolution]:
    """Return convolutions that follow each other; their weights take between a part of WGT and more than it
    holds."""
    rng, channels = random.Random(seed), 64
    layers = []
    for _ in range(5):
        outputs, kernel = rng.choice((32, 64, 256)), rng.choice((1, 1, 3))
        layers.append(
            Convolution(channels, WIDTH, WIDTH, outputs, (kernel, kernel), padding=(kernel // 2,) * 4)
        )
        channels = outputs
    return layers


def recorded(layers: list[Convolution]) -> StreamBuilder:
    builder = StreamBuilder(DEFAULT)
    for number, size in enumerate(layers):
        builder.label(f"layer {number}")
        func = schedule_conv2d(conv2d(size, DEFAULT, Scale()), size, DEFAULT).lower()
        names = {"X": f"A{number}", "W": f"W{number}", "P": f"P{number}", "Z": f"A{number + 1}"}
        emit(func, builder, {name: Operand(tensor) for name, tensor in names.items()})
    return builder


def result(layers: list[Convolution], stream, device) -> tuple[np.ndarray, np.ndarray]:
    """Return what a stream computes for random data, and what it should."""
    rng = np.random.default_rng(1)
    image = rng.integers(-128, 128, (1, layers[0].channels, WIDTH, WIDTH), np.int8)
    given, results = {"A0": blocked(image, DEFAULT.block_in, 1)}, {}
    for number, size in enumerate(layers):
        weights = rng.integers(-128, 128, (size.outputs, size.channels, *size.kernel), np.int8)
        count = size.outputs
        words = parameter_words(
            rng.integers(-99, 99, count), rng.integers(9000, 65536, count), np.full(count, 27)
        )
        given[f"W{number}"] = blocked_weights(weights, size, DEFAULT)
        given[f"P{number}"] = blocked_parameters(words, DEFAULT)
        image = requantise(convolved(image, weights, size), words[:, :, None, None])
        results[f"A{number + 1}"] = image.size
    launch = place(device, stream, {name: values.nbytes for name, values in given.items()} | results)
    for name, values in given.items():
        launch.write(name, values)
    launch.run()
    blocks = layers[-1].outputs // DEFAULT.block_out
    read = launch.read(f"A{len(layers)}", (1, blocks, WIDTH, WIDTH, 1, DEFAULT.block_out), np.int8)
    return unblocked(read, 1, layers[-1].outputs), image


@pytest.mark.parametrize("memory", MEMORIES, ids=str)
@pytest.mark.parametrize("seed", SEEDS)
def test_streams_with_prefetch_are_exact_and_not_slower(seed, memory):
    layers = layers_of(seed)
    before = cycles_of(recorded(layers).finish(), memory)
    stream = with_prefetch(recorded(layers), memory)
    assert cycles_of(stream, memory) <= before
    for device in (
        CycleDevice(DEFAULT),
        *(FunctionalDevice(DEFAULT, 1 << 22, order) for order in (None, 0, 1)),
    ):
        np.testing.assert_array_equal(*result(layers, stream, device))


def test_prefetch_saves_cycles():
    pairs = [
        (recorded(layers_of(seed)).finish(), with_prefetch(recorded(layers_of(seed)), REFERENCE_MEMORY))
        for seed in SEEDS
    ]
    before, after = (sum(map(cycles_of, streams)) for streams in zip(*pairs, strict=True))
    assert after <= 0.99 * before


def test_weights_that_move_to_other_places_are_read_there():
    channels, memory = (64, 64, 512, 64, 1024, 64), MemoryParameters(cycles_per_beat=2)
    layers = [
        Convolution(inputs, WIDTH, WIDTH, outputs, (kernel, kernel), padding=(kernel // 2,) * 4)
        for inputs, outputs, kernel in zip(channels, channels[1:], (3, 1, 1, 1, 1), strict=False)
    ]
    before, after = recorded(layers).finish(), with_prefetch(recorded(layers), memory)
    assert after.uops.size > before.uops.size  # micro-kernels that read other places
    assert cycles_of(after, memory) < cycles_of(before, memory)
    for order in (None, 0, 1):
        np.testing.assert_array_equal(*result(layers, after, FunctionalDevice(DEFAULT, 1 << 22, order)))


def test_weights_stay_in_their_places_where_other_places_cost_more(monkeypatch):
    asked = []

    def nothing_with_other_places(builder, weights, schedule, *, renames):
        asked.append(renames)
        return None if renames else prefetch(builder, weights, schedule, renames=renames)

    monkeypatch.setattr(linking, "prefetch", nothing_with_other_places)
    before, after = recorded(layers_of(0)).finish(), with_prefetch(recorded(layers_of(0)), REFERENCE_MEMORY)
    assert asked == [True, False] * linking.ROUNDS
    assert cycles_of(after) < cycles_of(before)
    np.testing.assert_array_equal(after.uops, before.uops)


def test_each_weight_is_loaded_as_often_as_before():
    layers = layers_of(0)
    before, after = recorded(layers).finish(), with_prefetch(recorded(layers), REFERENCE_MEMORY)
    for number in range(len(layers)):
        assert elements(after, f"W{number}") == elements(before, f"W{number}")
        assert before.labels.keys() == after.labels.keys()


def elements(stream, tensor: str) -> dict[int, int]:
    """Return how often each element of a tensor is loaded."""
    program = decode_stream(stream.relocated(dict.fromkeys(stream.tensors, 0)), DEFAULT)
    counts: dict[int, int] = {}
    for position in stream.tensors[tensor]:
        load = program.instruction(position)
        for row in range(load.y_size):
            for column in range(load.x_size):
                element = load.dram_base + row * load.x_stride + column
                counts[element] = counts.get(element, 0) + 1
    return counts


def test_another_round_moves_weights_by_the_stream_of_the_round_before(monkeypatch):
    def cycles_after(rounds: int) -> int:
        monkeypatch.setattr(linking, "ROUNDS", rounds)
        streams = (with_prefetch(recorded(layers_of(seed)), REFERENCE_MEMORY) for seed in SEEDS)
        return sum(map(cycles_of, streams))

    none, *rounds = map(cycles_after, range(linking.ROUNDS + 1))
    assert none > rounds[0] > rounds[1]


def test_a_slower_stream_is_not_used(monkeypatch):
    def slower(builder, weights, schedule, renames):
        other = StreamBuilder(DEFAULT)
        for _ in range(2):
            emit_once(other)
        return other

    def emit_once(builder):
        size = layers_of(0)[0]
        emit(schedule_conv2d(conv2d(size, DEFAULT, Scale()), size, DEFAULT).lower(), builder)

    once = StreamBuilder(DEFAULT)
    emit_once(once)
    monkeypatch.setattr(linking, "prefetch", slower)
    twin = StreamBuilder(DEFAULT)
    emit_once(twin)
    np.testing.assert_array_equal(with_prefetch(once, REFERENCE_MEMORY).words, twin.finish().words)
