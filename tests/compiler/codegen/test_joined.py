"""Programs joined into one stream: exact in every order, faster than in sequence, micro-kernels
shared."""

import numpy as np
import pytest
from generators.expected import convolved

from vdla.compiler.codegen.choose import cycles_of
from vdla.compiler.codegen.stream import compile_stream, emit
from vdla.compiler.operands.address_map import Operand
from vdla.compiler.tasks.convolution import schedule_conv2d
from vdla.compiler.te.operators.convolution import blocked_weights, conv2d
from vdla.compiler.te.operators.narrowing import Scale, blocked_parameters
from vdla.compiler.te.operators.sizes import Convolution
from vdla.hw.spec.memory import REFERENCE_MEMORY
from vdla.hw.spec.presets import TINY
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.layout import blocked, unblocked
from vdla.runtime.requantise import parameter_words, requantise
from vdla.runtime.session.launch import place
from vdla.runtime.stream.builder import UOP_TENSOR, StreamBuilder
from vdla.sim.decoded import decode_stream

SIZE = Convolution(8, 7, 7, 8, padding=(1, 1, 1, 1))
LAYERS = 3


def program():
    return schedule_conv2d(conv2d(SIZE, TINY, Scale()), SIZE, TINY).lower()


def named(tensors: dict[str, str]) -> dict[str, Operand]:
    return {name: Operand(tensor) for name, tensor in tensors.items()}


def joined():
    builder = StreamBuilder(TINY)
    for layer in range(LAYERS):
        builder.label(f"layer {layer}")
        emit(
            program(),
            builder,
            named({"X": f"A{layer}", "W": f"W{layer}", "P": f"P{layer}", "Z": f"A{layer + 1}"}),
        )
    return builder.finish()


def data():
    rng = np.random.default_rng(1)
    words = [
        parameter_words(rng.integers(-99, 99, 8), rng.integers(9000, 65536, 8), np.full(8, 23))
        for _ in range(LAYERS)
    ]
    return (
        rng.integers(-128, 128, (1, 8, 7, 7), np.int8),
        rng.integers(-128, 128, (LAYERS, 8, 8, 3, 3), np.int8),
        words,
    )


@pytest.mark.parametrize(
    "device",
    [CycleDevice(TINY), *(FunctionalDevice(TINY, 1 << 22, seed) for seed in (None, 0, 1, 2, 3))],
    ids=lambda device: f"{device.name} {getattr(device, 'seed', '')}",
)
def test_layers_joined_without_synchronisation_are_exact(device):
    image, weights, words = data()
    stream, given = joined(), {"A0": blocked(image, 4, 1)}
    for layer in range(LAYERS):
        given |= {
            f"W{layer}": blocked_weights(weights[layer], SIZE, TINY),
            f"P{layer}": blocked_parameters(words[layer], TINY),
        }
        image = requantise(convolved(image, weights[layer], SIZE), words[layer][:, :, None, None])
    launch = place(
        device,
        stream,
        {name: values.nbytes for name, values in given.items()}
        | {f"A{layer + 1}": image.size for layer in range(LAYERS)},
    )
    for name, values in given.items():
        launch.write(name, values)
    launch.run()
    np.testing.assert_array_equal(
        unblocked(launch.read(f"A{LAYERS}", (1, 2, 7, 7, 1, 4), np.int8), 1, 8), image
    )


def test_joined_layers_overlap_and_share_micro_kernels():
    stream, alone = joined(), compile_stream(program(), TINY)
    saved = LAYERS * cycles_of(alone) - cycles_of(stream)
    assert saved >= (LAYERS - 1) * REFERENCE_MEMORY.latency  # the first loads of a layer are hidden
    assert len(stream.tensors[UOP_TENSOR]) == len(alone.tensors[UOP_TENSOR])


def test_another_program_loads_its_weights_beside_those_of_the_one_before():
    other, builder = Convolution(8, 7, 7, 8, (1, 1)), StreamBuilder(TINY)
    emit(program(), builder, named({"X": "A0", "W": "W0", "P": "P0", "Z": "A1"}))
    func = schedule_conv2d(conv2d(other, TINY, Scale()), other, TINY).lower()
    emit(func, builder, named({"X": "A1", "W": "W1", "P": "P1", "Z": "A2"}))
    stream = builder.finish()
    decoded = decode_stream(stream.relocated(dict.fromkeys(stream.tensors, 0)), TINY)
    first, second = (
        {decoded.instruction(place).sram_base for place in stream.tensors[name]} for name in ("W0", "W1")
    )
    assert max(first) < min(second)


def test_every_instruction_but_the_last_belongs_to_a_label():
    stream = joined()
    positions = np.concatenate([stream.labels[f"layer {layer}"] for layer in range(LAYERS)])
    assert positions.tolist() == list(range(stream.count))
