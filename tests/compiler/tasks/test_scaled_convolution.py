"""A convolution that scales its image on the way into its products: exact, without the scaled image in DRAM."""

from collections import Counter

import numpy as np
import pytest
from generators.expected import convolved
from generators.making import Case

from tests.loading import load_file
from vdla.compiler.codegen.choose import simulated_cycles
from vdla.compiler.codegen.space import space_of
from vdla.compiler.codegen.stream import compile_stream
from vdla.compiler.rules import Unfit
from vdla.compiler.tasks.base import Choice
from vdla.compiler.tasks.convolution import ConvolutionTask
from vdla.compiler.tasks.program_text import constant_inputs, scalar_weights
from vdla.compiler.tasks.scaled_convolution import ScaledTask, scales_inputs
from vdla.compiler.tasks.scaling import FactorsTask, int8_parts
from vdla.compiler.te.operators.convolution import blocked_weights
from vdla.compiler.te.operators.narrowing import blocked_parameters
from vdla.compiler.te.operators.sizes import Convolution
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import Extension, MemoryType
from vdla.runtime.layout import blocked
from vdla.runtime.requantise import parameter_words, requantise
from vdla.sim.decoded import decode_stream

FEEDING = TINY.with_changes(extensions=(*TINY.extensions, Extension.FEEDBACK))
EVERY = DEFAULT.with_changes(extensions=tuple(Extension))


@pytest.fixture(scope="module")
def campaign():
    return load_file("scripts/random_operators.py")


def case_of(
    sizes: tuple[int, int, tuple[int, int]],
    zeros: tuple[int, int],
    choice: Choice,
    config: AcceleratorConfig = FEEDING,
) -> Case:
    """Return a task on random data; sizes are blocks of the image and of the result, and the pixels."""
    (inputs, outputs, (height, width)), rng = sizes, np.random.default_rng(3)
    channels, results = inputs * config.block_in, outputs * config.block_out
    numbers, constants = int8_parts(-zeros[1]), int8_parts(-zeros[0])
    task = ScaledTask(inputs, outputs, height * width, len(numbers), len(constants))
    image = rng.integers(-128, 128, (1, channels, height, width), np.int8)
    factors, weights = (
        rng.integers(-128, 128, shape, np.int8) for shape in ((channels,), (results, channels, 1, 1))
    )
    once = parameter_words(*(np.array([value]) for value in (zeros[0] * zeros[1], 40_000, 22, 3, -120, 110)))
    words = parameter_words(
        rng.integers(-3000, 3000, results),
        rng.integers(1 << 14, 1 << 16, results),
        rng.integers(23, 26, results),
        rng.integers(-20, 20, results),
    )
    products = (image.astype(np.int64) - zeros[0]) * (factors.astype(np.int64) - zeros[1])[:, None, None]
    scaled = requantise(
        products - zeros[0] * zeros[1], once[:, :, None, None], config.acc_bits
    )  # the bias adds the product of the zero points
    size = Convolution(channels, height, width, results, (1, 1))
    given = {
        "X": blocked(image, config.block_in, 1),
        "Q": blocked_parameters(np.repeat(once, config.block_out, 1), config),
        "D": np.stack([np.diag(part) for part in factors.reshape(-1, config.block_in)]),
        "W": blocked_weights(weights, size, config),
        "P": blocked_parameters(words, config),
        **({"K": scalar_weights(numbers, config)} if numbers else {}),
        **({"C": constant_inputs(constants, config)} if constants else {}),
    }
    expected = requantise(convolved(scaled, weights, size), words[:, :, None, None], config.acc_bits)
    assert len(np.unique(expected)) > 20
    return Case(str(task), config, task.program(choice, config), given, expected)


SIZES = {
    "a single step": (1, 1, (3, 3)),
    "chunks of one tile of pixels": (6, 4, (5, 5)),
    "tiles of pixels": (1, 2, (16, 30)),
    "chunks and tiles": (12, 3, (12, 14)),
    "a number of pixels without divisors": (3, 2, (1, 13)),
    "several parts of the result": (9, 24, (6, 6)),
}


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_results_are_exact(campaign, name, threads):
    assert campaign.failures(case_of(SIZES[name], (0, 0), Choice(threads)), on_rtl=False) == []


@pytest.mark.parametrize("zeros", [(0, -128), (-128, 0), (5, -7), (-128, 127)])
def test_zero_points_are_exact(campaign, zeros):
    case = case_of((3, 2, (7, 9)), zeros, Choice(2))
    assert campaign.failures(case, on_rtl=False) == []


def test_the_hardware_agrees(campaign):
    assert campaign.failures(case_of((6, 4, (5, 5)), (5, -7), Choice(2)), on_rtl=True) == []


def test_each_byte_of_the_image_is_loaded_once_and_only_results_are_stored():
    """Nor is a block of weights loaded twice."""
    task = ScaledTask(9, 2, 784)
    stream = compile_stream(task.program(Choice(2), EVERY), EVERY)
    program = decode_stream(stream.relocated(dict.fromkeys(stream.tensors, 0)), EVERY)
    moved = Counter[tuple[type, int]]()
    for form in (isa.Load, isa.Store):
        of = program.fields(form)
        for memory, rows, width in zip(of("memory_type"), of("y_size"), of("x_size"), strict=True):
            moved[form, int(memory)] += int(rows * width)
    wanted = {
        (isa.Load, MemoryType.INP): 9 * 784,
        (isa.Load, MemoryType.WGT): 9 * 2 + 9,
        (isa.Store, MemoryType.INP): 9 * 784,
        (isa.Store, MemoryType.OUT): 2 * 784,
    }
    assert {each: moved[each] for each in wanted} == wanted


@pytest.mark.parametrize(
    ("sizes", "share"), [((72, 12, 49), 1.12), ((42, 7, 196), 1.2), ((15, 3, 784), 1.12)]
)
def test_it_takes_little_more_than_its_slots(sizes, share):
    """A slot to scale each element, and a slot for each product of the convolution."""
    task, target = ScaledTask(*sizes), Target(EVERY)
    inputs, outputs, pixels = sizes
    cycles = simulated_cycles(task, Choice(2), target)
    assert inputs * pixels * (1 + outputs) < cycles < share * inputs * pixels * (1 + outputs)


def test_it_takes_far_fewer_cycles_than_two_operators():
    target, size = Target(EVERY), Convolution(96, 56, 56, 24, (1, 1))
    apart = simulated_cycles(FactorsTask(6, 3136), Choice(2), target)
    convolution = ConvolutionTask(size)
    space = space_of(convolution, target)
    assert not isinstance(space, Unfit)
    apart += simulated_cycles(convolution, space.usual.choice(0), target)
    assert simulated_cycles(ScaledTask(6, 2, 3136), Choice(2), target) < 0.6 * apart


@pytest.mark.parametrize(
    ("config", "task", "can"),
    [
        (FEEDING, ScaledTask(2, 2, 9), True),
        (TINY, ScaledTask(2, 2, 9), False),
        (FEEDING.with_changes(extensions=("feedback",)), ScaledTask(2, 2, 9), False),
        (FEEDING.with_changes(block_in=8), ScaledTask(2, 2, 9), False),
        (FEEDING, ScaledTask(2, 62, 9), True),
        (FEEDING, ScaledTask(2, 62, 9, adds_residual=True), False),
        (FEEDING.with_changes(wgt_buffer_bytes=64), ScaledTask(4, 1, 9), False),
    ],
)
def test_what_a_configuration_supports(config, task, can):
    assert scales_inputs(config, task) == can
