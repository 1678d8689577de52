"""Runs inside the simulator: the requantiser against the specification, parameters and parts in one stream."""

import random

import cocotb
from cocotb.triggers import FallingEdge
from streams import configuration, start

from vdla.hw.spec import numerics
from vdla.hw.spec.timing import REQUANTISE_STAGES
from vdla.hw.spec.vocabulary import Parameter


class Numbers:
    """Draws accumulators and parameters, often extreme."""

    def __init__(self, config, seed: int) -> None:
        self._rng, self._bits = random.Random(seed), config.acc_bits

    def accumulator(self) -> int:
        least, greatest = -(1 << self._bits - 1), (1 << self._bits - 1) - 1
        near = self._rng.randint(-300, 300)
        return self._rng.choice((least, greatest, 0, -1, near, self._rng.randint(least, greatest)))

    def parameters(self) -> tuple[int, ...]:
        """Return a set that a value may have; bits without effect are random."""
        rng = self._rng
        byte = (-128, 127, 0, rng.randint(-128, 127))
        bias = rng.choice((0, self.accumulator()))
        multiplier = rng.choice((0, 1, 0xFFFF, 0x8000, rng.randint(0, 0xFFFF)))
        shift = rng.choice((0, rng.randint(0, 63), rng.randint(10, self._bits)))
        limits = rng.choice(((-128, 127), sorted(rng.choices(byte, k=2)), rng.choices(byte, k=2)))
        given = numerics.requantise_parameters(bias, multiplier, shift, rng.choice(byte), *limits)
        used = (self._bits, 16, 16, 16)
        return tuple(
            numerics.wrap(word | rng.getrandbits(self._bits) << bits, self._bits)
            for word, bits in zip(given, used, strict=True)
        )


async def give(dut, config, element: list[int], **signals: int) -> None:
    """Let the requantiser see an element for one cycle."""
    mask = (1 << config.acc_bits) - 1
    dut.element.value = sum((value & mask) << place * config.acc_bits for place, value in enumerate(element))
    for name in ("keeps", "row", "part", "scales"):
        getattr(dut, name).value = signals.get(name, 0)
    await FallingEdge(dut.clk)


def outputs(config, element: list[int], part: int, sets: list[tuple[int, ...]] | None) -> int:
    """Return the outputs of a part: requantised by a set per value, or the low bits."""
    lanes, packed = config.values_per_store_read, 0
    for lane in range(lanes):
        place = part * lanes + lane
        value = element[place]
        if sets:
            value = numerics.requantise(value, sets[place], config.acc_bits)
        packed |= (value & (1 << config.out_bits) - 1) << lane * config.out_bits
    return packed


@cocotb.test()
@cocotb.parametrize(seed=range(4))
async def test_outputs_are_those_of_the_set_kept_before_and_of_no_later_one(dut, seed):
    """Sets follow each other behind 1 to 12 parts without a cycle between; some parts are not requantised."""
    config, rng = configuration(), random.Random(seed)
    numbers, values = Numbers(config, seed), config.batch * config.block_out
    expected, measured = [], []
    await start(dut, "element", "keeps", "row", "part", "scales")
    for _ in range(300):
        sets = [numbers.parameters() for _ in range(values)]
        for row in Parameter:
            await give(dut, config, [parameters[row] for parameters in sets], keeps=1, row=row)
            expected.append(None)
            measured.append(int(dut.outputs.value) if dut.outputs.value.is_resolvable else None)
        for _ in range(rng.randint(1, 12)):
            element = [numbers.accumulator() for _ in range(values)]
            part, scales = rng.randrange(values // config.values_per_store_read), int(rng.random() < 0.9)
            await give(dut, config, element, part=part, scales=scales)
            expected.append(outputs(config, element, part, sets if scales else None))
            measured.append(int(dut.outputs.value) if dut.outputs.value.is_resolvable else None)
    behind = REQUANTISE_STAGES - 1  # `measured` was seen at the end of the cycle
    pairs = [pair for pair in zip(expected, measured[behind:], strict=False) if pair[0] is not None]
    assert len(pairs) > 1000
    assert all(due == actual for due, actual in pairs)
