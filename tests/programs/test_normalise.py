"""NORMALISEs on every device: softmax, layer normalisation and RMS normalisation of rows of several elements,
with values that are left out, more rows than there are statistics, and outputs into INP."""

import math
from functools import cache

import numpy as np
import pytest
from generators.programs import IMAGE_BYTES, Program

from tests.programs.devices import DEVICES, device
from tests.programs.model import Model
from vdla.hw.spec import codec, isa
from vdla.hw.spec.normalisation import NormalOperands, normal_parameters
from vdla.hw.spec.numerics import requantise_parameters
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.vocabulary import Extension, MemoryType, Statistic
from vdla.runtime.stream.builder import UOP_TENSOR, Loop, Rows, StreamBuilder
from vdla.runtime.stream.record import NO_TENSOR

GREATEST, POWERS, MOMENTS = Statistic
WHOLE = TINY.with_changes(name="normalising", extensions=tuple(Extension))
CONFIGS = (
    WHOLE,
    WHOLE.with_changes(
        name="of 8 columns, 2 at a time",
        block_in=8,
        block_out=8,
        acc_buffer_bytes=1 << 14,
        requantise_lanes=2,
    ),
    TINY.with_changes(
        name="of 16 columns, without INP as target",
        block_out=16,
        acc_buffer_bytes=1 << 15,
        extensions=(Extension.REQUANTISE, Extension.TABLE, Extension.NORMALISE),
        requantise_lanes=0,
    ),
)
IDS = [config.name for config in CONFIGS]
TENSORS = {
    UOP_TENSOR: 4096,
    "parameters": 6144,
    "table": 8192,
    "weights": 10240,
    "values": 16384,
    "out": 131072,
}
ALL, SOME = 1, 2  # sets of requantisation: the second leaves the last columns out
NORMAL = 3  # the set of normalisation: behind the two others
FIRST = 12  # the first accumulators of values
LEFT_OUT = 1 << 16
SCALE = 0.05  # of a value, before softmax
PART = 6  # rows of the cases
PARTS = 3  # elements of a row
FULL = 250  # elements of a block


def count_of(config, *, some: bool) -> int:
    """Return the values of a row; with `some`, the last element has half of them."""
    return PARTS * config.block_out - (config.block_out // 2 if some else 0)


def parameters_of(config, normal: NormalOperands) -> np.ndarray:
    """Return int32[12, block_out]: two sets of requantisation, and a set of normalisation."""
    columns = config.block_out
    words = requantise_parameters(3, 1 << 12, 16, 0, -128, 127)
    sets = [np.broadcast_to(word, columns) for word in (*words, *words)]
    sets[-1] = sets[-1] | np.where(np.arange(columns) >= columns - columns // 2, LEFT_OUT, 0)
    return np.array([*sets, *(np.broadcast_to(word, columns) for word in normal_parameters(normal))])


def softmax_operands(config) -> NormalOperands:
    """Return the parameters of probabilities in units of 1 / 256, minus 128."""
    return NormalOperands((-128 << 18) + (1 << 17), 1 << 10, 0, 0, 0, 0)


def moments_operands(config, *, some: bool, mean: bool) -> NormalOperands:
    """Return the parameters of outputs in units of 1 / 32, different for each column."""
    count = count_of(config, some=some)
    exponent = count.bit_length() - 1
    factor = np.round((1 + 0.1 * np.arange(config.block_out)) * (32 << 8) * count / 2**exponent).astype(int)
    addend = (1 << 17) + (np.arange(config.block_out) - 2 << 18)
    inverse = min(round(2 ** (16 + exponent) / count), (1 << 16) - 1)
    return NormalOperands(addend, factor, count, exponent, inverse * mean, 7)


def parts(some: bool) -> list[tuple[int, int]]:
    """Return the first accumulator of each element of the rows, and the set of parameters for it."""
    return [(FIRST + PART * part, SOME if some and part == PARTS - 1 else ALL) for part in range(PARTS)]


def normalise_rows(builder: StreamBuilder, statistics, some: bool, **how) -> None:
    """Gather each statistic of the elements of all rows, then write outputs by the last."""
    rows = Rows(1, PART, PART)
    for statistic in statistics:
        for number, (sram, parameters) in enumerate(parts(some)):
            builder.gather_statistics(
                sram, rows, statistic=statistic, parameters=parameters, anew=number == 0, **how
            )
    for number, (sram, parameters) in enumerate(parts(some)):
        builder.normalise(
            sram,
            "out",
            number,
            Rows(PART, 1, PARTS),
            statistic=statistics[-1],
            parameters=parameters,
            normal=NORMAL,
            **how,
        )


def softmax(builder: StreamBuilder, *, some: bool = False, table: int = 1) -> None:
    """Softmax of rows."""
    normalise_rows(builder, (GREATEST, POWERS), some, table=table)


def standardise(builder: StreamBuilder, *, some: bool = False) -> None:
    """Layer or RMS normalisation of rows."""
    normalise_rows(builder, (MOMENTS,), some)


def powers_alone(builder: StreamBuilder) -> None:
    """Powers that nothing divides, once from the table and once the differences."""
    rows = Rows(2, 3, 5)
    builder.gather_statistics(FIRST, rows, statistic=GREATEST, anew=True)
    for table in (0, 2):
        place = 20 * table
        builder.normalise(FIRST, "out", place, rows, statistic=GREATEST, table=table, normal=NORMAL)


def more_rows_than_statistics(builder: StreamBuilder) -> None:
    """Blocks of more than 256 elements: the rows wrap."""
    rows = Rows(2, FULL, FULL)
    builder.gather_statistics(FIRST, rows, statistic=GREATEST, anew=True)
    builder.gather_statistics(FIRST, rows, statistic=GREATEST, parameters=ALL)
    builder.gather_statistics(FIRST, Rows(1, 256, 256), statistic=POWERS, anew=True, table=1)
    builder.gather_statistics(FIRST + 256, Rows(1, 44, 44), statistic=POWERS, table=1)
    builder.normalise(FIRST, "out", 3, rows, statistic=POWERS, table=1, normal=NORMAL)


def interleaved(builder: StreamBuilder) -> None:
    """Statistics of several kinds beside each other, and STOREs between them."""
    rows = Rows(1, PART, PART)
    for number, (sram, _) in enumerate(parts(False)):
        for statistic in (MOMENTS, GREATEST):
            builder.gather_statistics(sram, rows, statistic=statistic, parameters=ALL, anew=number == 0)
        builder.store(sram, "out", 100 + PART * number, rows, parameters=ALL)
    builder.gather_statistics(FIRST, rows, statistic=POWERS, table=1, anew=True)
    for number, statistic in enumerate(Statistic):
        place = PART * number
        builder.normalise(FIRST, "out", place, rows, statistic=statistic, table=1, normal=NORMAL)


def of_nothing(builder: StreamBuilder) -> None:
    """NORMALISEs of no elements leave the statistics alone."""
    rows = Rows(1, PART, PART)
    builder.gather_statistics(FIRST, rows, statistic=MOMENTS, anew=True)
    for empty in (Rows(0, PART, PART), Rows(3, 0, PART)):
        builder.gather_statistics(FIRST, empty, statistic=MOMENTS, anew=True)
        builder.normalise(FIRST, "out", 50, empty, statistic=POWERS, normal=NORMAL)
    builder.normalise(FIRST, "out", 0, rows, statistic=MOMENTS, normal=NORMAL)


SOFTMAX = softmax_operands
CASES = {
    "softmax": (softmax, SOFTMAX),
    "softmax of half an element less": (lambda builder: softmax(builder, some=True), SOFTMAX),
    "softmax without a table": (lambda builder: softmax(builder, table=0), SOFTMAX),
    "layer normalisation": (
        standardise,
        lambda config: moments_operands(config, some=False, mean=True),
    ),
    "layer normalisation of half an element less": (
        lambda builder: standardise(builder, some=True),
        lambda config: moments_operands(config, some=True, mean=True),
    ),
    "RMS normalisation": (standardise, lambda config: moments_operands(config, some=False, mean=False)),
    "powers alone": (powers_alone, SOFTMAX),
    "more rows than statistics": (more_rows_than_statistics, SOFTMAX),
    "statistics of several kinds": (
        interleaved,
        lambda config: moments_operands(config, some=False, mean=True),
    ),
    "nothing": (of_nothing, lambda config: moments_operands(config, some=False, mean=True)),
}


def table_of_powers() -> np.ndarray:
    """Return uint16[512]: the powers of e, and powers of other numbers."""
    powers = [round(65535 * math.exp(-SCALE * distance)) for distance in range(256)]
    return np.array([*powers, *np.random.default_rng(4).integers(0, 1 << 16, 256)], "<u2")


def image_of(config, normal: NormalOperands) -> np.ndarray:
    """Return DRAM before a program."""
    rng = np.random.default_rng(7)
    image = rng.integers(0, 256, IMAGE_BYTES, dtype=np.uint8)
    values = rng.integers(-2000, 2000, (config.depth(MemoryType.ACC), config.block_out))
    for name, words in (
        ("parameters", parameters_of(config, normal).astype("<i4")),
        ("table", table_of_powers()),
        ("values", values.astype("<i4")),
    ):
        data = np.frombuffer(words.tobytes(), np.uint8)
        image[TENSORS[name] : TENSORS[name] + len(data)] = data
    return image


def program_of(config, emit, normal: NormalOperands) -> Program:
    """Return a program that loads parameters, tables and values before what `emit` records."""
    builder = StreamBuilder(config)
    builder.load(MemoryType.ACC, 0, "parameters", 0, Rows(1, FIRST, FIRST))
    builder.load(MemoryType.TABLE, 0, "table", 0, Rows(2, 128, 128))
    builder.load(MemoryType.ACC, FIRST, "values", 0, Rows(2, FULL, FULL))
    emit(builder)
    stream = builder.finish()
    words = stream.relocated({name: TENSORS[name] for name in stream.tensors})
    image, uops = image_of(config, normal), stream.uops.view(np.uint8)
    image[TENSORS[UOP_TENSOR] : TENSORS[UOP_TENSOR] + len(uops)] = uops
    instructions = tuple(codec.decode(int.from_bytes(word.tobytes(), "little"), config) for word in words)
    return Program(config, instructions, image, words.tobytes())


@cache
def case(config, name: str) -> tuple[Program, np.ndarray]:
    """Return the program of a case, and DRAM after it by the model in plain Python."""
    emit, operands = CASES[name]
    program = program_of(config, emit, operands(config))
    model = Model(config, bytearray(program.image))
    return program, np.frombuffer(model.run(program.instructions), np.uint8)


@pytest.mark.parametrize("config", CONFIGS, ids=IDS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("on", DEVICES)
def test_a_device_gives_what_the_model_gives(on, name, config):
    program, expected = case(config, name)
    _, image = program.run_on(device(on, config))
    np.testing.assert_array_equal(image, expected)
    assert (image != program.image).any()


def into_inputs(builder: StreamBuilder) -> None:
    """Softmax into INP, times weights."""
    rows, places = Rows(1, PART, PART), Rows(1, PART * PARTS, PART * PARTS)
    builder.load(MemoryType.WGT, 0, "weights", 0, Rows(1, 1, 1))
    softmax(builder)
    for number, (sram, parameters) in enumerate(parts(False)):
        place = PART * number
        builder.record.transfer(
            isa.Normalise,
            (MemoryType.INP, sram, place, parameters, *rows[:3], 1, NORMAL, POWERS, False),
            NO_TENSOR,
        )
    builder.gemm(((0, 0, 0),), Loop(1), Loop(PART * PARTS, dst=1, src=1), overwrite=True)
    builder.store(0, "out", 100, places)


@pytest.mark.parametrize("config", CONFIGS[:2], ids=IDS[:2])
@pytest.mark.parametrize("on", DEVICES)
def test_the_next_product_reads_outputs_that_were_written_into_inputs(on, config):
    program = program_of(config, into_inputs, softmax_operands(config))
    model = Model(config, bytearray(program.image))
    expected = np.frombuffer(model.run(program.instructions), np.uint8)
    _, image = program.run_on(device(on, config))
    np.testing.assert_array_equal(image, expected)


def rows_of(config, image: np.ndarray, *, some: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return float64[rows, values]: the requantised values of the rows, and int8 outputs in `image`."""
    columns = config.block_out
    words = np.frombuffer(image[TENSORS["values"] :].tobytes(), "<i4", PART * PARTS * columns)
    values = np.clip(np.floor((words.reshape(PARTS, PART, columns) + 3) / 16 + 0.5), -128, 127)
    outputs = image[TENSORS["out"] : TENSORS["out"] + PART * PARTS * columns].view(np.int8)
    count = count_of(config, some=some)
    by_row = values.transpose(1, 0, 2).reshape(PART, -1)[:, :count]
    return by_row, outputs.reshape(PART, -1)[:, :count].astype(float)


@pytest.mark.parametrize("config", CONFIGS, ids=IDS)
@pytest.mark.parametrize("some", [False, True])
def test_softmax_is_within_1_of_softmax_on_floats(some, config):
    name = "softmax of half an element less" if some else "softmax"
    _, image = case(config, name)[0].run_on(device("functional", config))
    values, outputs = rows_of(config, image, some=some)
    powers = np.exp(SCALE * (values - values.max(axis=1, keepdims=True)))
    expected = np.clip(np.round(256 * powers / powers.sum(axis=1, keepdims=True)) - 128, -128, 127)
    assert np.abs(outputs - expected).max() <= 1


NORMALISATIONS = (
    ("layer normalisation", True),
    ("layer normalisation of half an element less", True),
    ("RMS normalisation", False),
)


@pytest.mark.parametrize("config", CONFIGS, ids=IDS)
@pytest.mark.parametrize(("name", "mean"), NORMALISATIONS)
def test_a_normalisation_is_within_1_of_that_on_floats(name, mean, config):
    _, image = case(config, name)[0].run_on(device("functional", config))
    values, outputs = rows_of(config, image, some="less" in name)
    centred = values - values.mean(axis=1, keepdims=True) * mean
    column = np.arange(values.shape[1]) % config.block_out
    scaled = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True)) * 32 * (1 + 0.1 * column)
    expected = np.clip(np.round(scaled + column - 2), -128, 127)
    assert np.abs(outputs - expected).max() <= 1
