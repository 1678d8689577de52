"""Runs inside the simulator: residuals added to values, parameters and parts in one stream."""

import random
from typing import NamedTuple

import cocotb
from cocotb.triggers import FallingEdge
from streams import configuration, start

from vdla.hw.residual import READ_STAGES
from vdla.hw.spec import numerics
from vdla.hw.spec.timing import RESIDUAL_STAGES
from vdla.hw.spec.vocabulary import Parameter

DISTANCES = {8: 12, 4: 9}  # by width of outputs, as the units are built


def parameters(rng: random.Random) -> tuple[int, ...]:
    """Return a set of parameters, often extreme."""
    factor = [rng.choice((0, 1, -1, 32767, -32768, rng.randint(-32768, 32767))) for _ in range(2)]
    addend = rng.choice((0, (1 << 31) - 1, -(1 << 31), rng.randint(-(1 << 20), 1 << 20)))
    shift = rng.choice((0, 63, rng.randint(0, 63), rng.randint(8, 20)))
    zero, *limits = (rng.choice((0, -128, 127, rng.randint(-128, 127))) for _ in range(3))
    given = numerics.residual_parameters(addend, factor, shift, zero, *rng.choice((limits, (-128, 127))))
    return tuple(
        numerics.wrap(word | rng.getrandbits(16) << 16 * (row > 1), 32) for row, word in enumerate(given)
    )


class Read(NamedTuple):
    """A read of an element: what its values, its residuals and the parameters are; none: nothing is added."""

    scalars: tuple[int, ...]
    values: list[int]
    element: list[int]
    part: int

    @property
    def outputs(self) -> int:
        """What comes of it, packed."""
        lanes = len(self.values)
        addends = self.element[self.part * lanes : (self.part + 1) * lanes]
        pairs = zip(self.values, addends, strict=True)
        results = [numerics.add_residual(*pair, self.scalars) if self.scalars else pair[0] for pair in pairs]
        return packed(results, 8)


def packed(values: list[int], bits: int) -> int:
    """Return values side by side, the first lowest."""
    return sum((value & (1 << bits) - 1) << bits * place for place, value in enumerate(values))


def random_read(config, rng: random.Random, scalars: tuple[int, ...]) -> Read:
    """Return a read with random data."""
    lanes, count = config.values_per_store_read, config.batch * config.block_out
    least = -(1 << config.out_bits - 1)
    return Read(
        scalars if rng.random() < 0.9 else (),
        [rng.randint(-128, 127) for _ in range(lanes)],
        [rng.randint(least, -least - 1) for _ in range(count)],
        rng.randrange(count // lanes),
    )


def random_program(config, rng: random.Random) -> tuple[dict[int, tuple[int, int]], dict[int, Read], int]:
    """Return, by cycle, the parameters that are kept and the reads that are issued; and the number of cycles:
    sets of parameters behind the parameters of the values, and 1 to 12 reads behind them."""
    kept, reads, cycle = {}, {}, 0
    for _ in range(200):
        scalars = tuple(numerics.wrap(word, config.acc_bits) for word in parameters(rng))
        cycle += len(Parameter)
        for row in Parameter:
            kept[cycle] = row, scalars[row]
            cycle += 1
        for _ in range(rng.randint(1, 12)):
            reads[cycle] = random_read(config, rng, scalars)
            cycle += 1
    return kept, reads, cycle


@cocotb.test()
@cocotb.parametrize(seed=range(3))
async def test_outputs_are_those_of_the_set_kept_before_and_of_no_later_one(dut, seed):
    config = configuration()
    distance, measured = DISTANCES[config.out_bits], {}
    kept, reads, end = random_program(config, random.Random(seed))
    reads = {cycle + distance: read for cycle, read in reads.items()}
    await start(dut, "element", "part", "adds", "values", "keeps", "row", "word")
    for cycle in range(end + distance + RESIDUAL_STAGES):
        dut.keeps.value = int(cycle in kept)
        if cycle in kept:
            dut.row.value, dut.word.value = kept[cycle][0], kept[cycle][1] & (1 << config.acc_bits) - 1
        if cycle in reads:
            dut.values.value = packed(reads[cycle].values, 8)
        if cycle + 1 in reads:
            following = reads[cycle + 1]
            dut.part.value, dut.adds.value = following.part, int(bool(following.scalars))
        if cycle + READ_STAGES - 1 in reads:
            dut.element.value = packed(reads[cycle + READ_STAGES - 1].element, config.out_bits)
        await FallingEdge(dut.clk)
        measured[cycle] = int(dut.outputs.value) if dut.outputs.value.is_resolvable else None
    assert len(reads) > 800
    for cycle, read in reads.items():
        assert measured[cycle + RESIDUAL_STAGES - 1] == read.outputs, cycle
