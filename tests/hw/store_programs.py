"""Runs inside the simulator: programs of STOREs and NORMALISEs, and the bytes that they write."""

from collections.abc import Iterator
from dataclasses import replace

from normal_programs import NORMALISES, Rows

from vdla.hw.spec import isa, numerics
from vdla.hw.spec.vocabulary import Extension, MemoryType, NormalParameter, Parameter

OUT = MemoryType.OUT
STORES = (
    isa.Store(memory_type=OUT, sram_base=3, dram_base=5, y_size=1, x_size=70, x_stride=70, push_prev=1),
    isa.Store(memory_type=OUT, x_size=0, y_size=1, push_prev=1),
    isa.Store(memory_type=OUT, x_size=2, y_size=0),
    isa.Store(memory_type=OUT, sram_base=90, dram_base=301, y_size=5, x_size=3, x_stride=7, push_prev=1),
    isa.Store(memory_type=OUT, x_size=0, push_prev=1),
    isa.Store(memory_type=OUT, sram_base=120, dram_base=500, y_size=1, x_size=1, push_prev=1),
)


REQUANTISING = (
    isa.Store(
        memory_type=OUT,
        parameters=2,
        sram_base=7,
        dram_base=700,
        y_size=2,
        x_size=9,
        x_stride=11,
        push_prev=1,
    ),
    isa.Store(memory_type=OUT, parameters=9, x_size=0, push_prev=1),
    isa.Store(memory_type=OUT, parameters=1, sram_base=40, dram_base=801, y_size=1, x_size=1),
    isa.Store(memory_type=OUT, parameters=33, sram_base=50, dram_base=803, y_size=1, x_size=2),
    isa.Store(
        memory_type=OUT, parameters=isa.MOST_PARAMETER_SETS, sram_base=60, dram_base=806, y_size=1, x_size=1
    ),
)


TABLES = (
    isa.Store(memory_type=OUT, parameters=3, table=2, sram_base=70, dram_base=820, y_size=1, x_size=13),
    isa.Store(memory_type=OUT, parameters=4, table=8, sram_base=80, dram_base=840, y_size=1, x_size=1),
    isa.Store(memory_type=OUT, parameters=0, table=1, sram_base=81, dram_base=842, y_size=1, x_size=2),
)
RESIDUALS = (
    isa.Store(
        memory_type=OUT,
        parameters=5,
        residual=101,
        sram_base=20,
        dram_base=900,
        y_size=3,
        x_size=4,
        x_stride=6,
        push_prev=1,
    ),
    *(
        isa.Store(
            memory_type=OUT,
            parameters=number,
            residual=number,
            sram_base=number,
            dram_base=930 + 2 * number,
            y_size=1,
            x_size=1,
        )
        for number in range(1, 12)
    ),
    isa.Store(memory_type=OUT, parameters=6, sram_base=30, dram_base=960, y_size=1, x_size=3),
    isa.Store(memory_type=OUT, parameters=0, residual=4, sram_base=33, dram_base=970, y_size=1, x_size=3),
    isa.Store(memory_type=OUT, parameters=7, residual=9, x_size=0, push_prev=1),
)


def stores(config) -> tuple[isa.Store | isa.Normalise, ...]:
    """Return the STOREs that a configuration has; each with a residual also with a table, if it can be. Then
    its NORMALISEs, with STOREs between them."""
    listed = STORES
    if config.has(Extension.REQUANTISE):
        listed += REQUANTISING
    if config.has(Extension.TABLE):
        listed += TABLES
    if config.has(Extension.RESIDUAL):
        listed += RESIDUALS
    if config.has(Extension.TABLE) and config.has(Extension.RESIDUAL):
        listed += tuple(
            replace(store, table=number % 9, dram_base=store.dram_base + 100)
            for number, store in enumerate(RESIDUALS)
        )
    if config.has(Extension.NORMALISE):
        listed += NORMALISES
    return listed


def element(config, index: int) -> list[int]:
    """Return accumulator element `index` of the scratchpad."""
    span = 1 << config.acc_bits
    return [
        numerics.wrap((index * 7919 + place * 104729 + 12345) ** 2 % span, config.acc_bits)
        for place in range(config.batch * config.block_out)
    ]


def outputs(config, store: isa.Store, index: int) -> bytes:
    """Return what a STORE makes of element `index`, as it stands in DRAM."""
    values = element(config, index)
    if store.parameters:
        kept = [element(config, store.parameters_base + row) for row in Parameter]
        values = [
            numerics.requantise(value, parameters, config.acc_bits)
            for value, *parameters in zip(values, *kept, strict=True)
        ]
        values = followed(config, store, values, index - store.sram_base)
    packed = sum(
        (value & (1 << config.out_bits) - 1) << place * config.out_bits for place, value in enumerate(values)
    )
    return packed.to_bytes(config.element_bytes(OUT), "little")


def entry(number: int, value: int) -> int:
    """Return the entry of a value in table `number`, counted from 1, as a signed byte."""
    place = 256 * (number - 1) + (value & 0xFF)
    return numerics.wrap((place * 73 + 29) ** 2 >> 3, 8)


def residual(config, index: int) -> list[int]:
    """Return element `index` of the residual scratchpad."""
    return [
        numerics.wrap((index * 6007 + place * 997 + 77) ** 2 >> 5, config.out_bits)
        for place in range(config.batch * config.block_out)
    ]


def followed(config, store: isa.Store, values: list[int], number: int) -> list[int]:
    """Return what the steps behind requantisation make of the values of element `number` of a STORE."""
    if store.table:
        values = [entry(store.table, value) for value in values]
    if store.residual:
        scalars = [element(config, int(row))[0] for row in Parameter]
        values = [
            numerics.add_residual(value, other, scalars)
            for value, other in zip(values, residual(config, store.residual - 1 + number), strict=True)
        ]
    return values


def normal_outputs(config, rows: Rows, it: isa.Normalise, number: int) -> bytes:
    """Let a NORMALISE read its element of this number; return what it writes."""
    index = it.sram_base + number
    values = [numerics.wrap(value, 8) for value in element(config, index)]
    left_out = [0] * len(values)
    if it.parameters:
        kept = [element(config, it.parameters_base + row) for row in Parameter]
        values = [
            numerics.requantise(value, parameters, config.acc_bits)
            for value, *parameters in zip(element(config, index), *kept, strict=True)
        ]
        left_out = [clip >> 16 & 1 for clip in kept[Parameter.CLIP]]
    table = None
    if it.table:
        given = [entry(it.table + place // 256, place % 256) & 0xFF for place in range(512)]
        table = [low | high << 8 for low, high in zip(given[::2], given[1::2], strict=True)]
    if not it.normal:
        rows.gather(
            it, number, [value for value, left in zip(values, left_out, strict=True) if not left], table
        )
        return b""
    words = [element(config, it.normal_base + row) for row in NormalParameter]
    return bytes(byte & 0xFF for byte in rows.normalised(it, number, values, table, words))


def written(
    config, executed: tuple[isa.Store | isa.Normalise, ...]
) -> Iterator[tuple[isa.Store | isa.Normalise, dict[int, int]]]:
    """Yield the instructions in order, each with the bytes that it writes."""
    size, rows = config.element_bytes(OUT), Rows()
    for it in executed:
        dram: dict[int, int] = {}
        for y in range(it.y_size):
            for x in range(it.x_size):
                number, start = y * it.x_size + x, (it.dram_base + y * it.x_stride + x) * size
                if isinstance(it, isa.Normalise):
                    outputs_of = normal_outputs(config, rows, it, number)
                else:
                    outputs_of = outputs(config, it, it.sram_base + number)
                dram.update(enumerate(outputs_of, start))
        yield it, dram


def expected(config, executed: tuple[isa.Store | isa.Normalise, ...]) -> dict[int, int]:
    """Return every byte of DRAM that the instructions write."""
    dram: dict[int, int] = {}
    for _, bytes_of in written(config, executed):
        dram.update(bytes_of)
    return dram


def mixed(config) -> tuple[isa.Store, ...]:
    """Return the STOREs of a configuration, of which every second writes INP instead of DRAM."""
    depth = config.depth(MemoryType.INP)
    listed = []
    for number, store in enumerate(stores(config)):
        last = max(store.y_size - 1, 0) * store.x_stride + store.x_size
        base = 37 * number % max(1, depth - last)
        listed += [
            store,
            replace(store, memory_type=MemoryType.INP, dram_base=base, push_prev=number % 3 == 0),
        ]
    return tuple(listed)
