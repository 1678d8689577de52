"""Runs inside the simulator: what NORMALISEs add to the issue of reads, against the instructions themselves."""

import random

import cocotb
from cocotb.triggers import FallingEdge
from streams import configuration, start, unpack

from vdla.hw.spec import codec, isa
from vdla.hw.spec.vocabulary import MemoryType, Statistic
from vdla.hw.store_beats import normal_kind_layout, normal_layout

INPUTS = "offered", "instruction", "takes", "begins", "empty", "set_ends", "advance"
OUT = MemoryType.OUT
MOST_GAP = 2  # cycles in which nothing happens


def random_instruction(rng: random.Random) -> isa.Store | isa.Normalise:
    """Return an instruction of the store unit, which may be empty."""
    sizes = {"x_size": rng.choice((0, 1, 1, 3)), "y_size": rng.choice((0, 1, 1, 2))}
    parameters = rng.choice((0, 1, 9))
    if rng.random() < 0.3:
        return isa.Store(memory_type=OUT, parameters=parameters, **sizes)
    return isa.Normalise(
        memory_type=OUT,
        parameters=parameters,
        statistic=rng.choice(list(Statistic)),
        normal=rng.choice((0, 1, 2, 8)),
        anew=rng.randrange(2),
        **sizes,
    )


def kind(it: isa.Store | isa.Normalise) -> dict[str, int] | None:
    """Return the kind of a NORMALISE that reads something."""
    if isinstance(it, isa.Store) or not it.x_size * it.y_size:
        return None
    return {"statistic": int(it.statistic), "writes": int(it.normal > 0)}


class Bench:
    """The unit, driven by one instruction after the other."""

    def __init__(self, dut, config, rng: random.Random) -> None:
        self.dut, self.config, self.rng = dut, config, rng
        self.kind = {"statistic": int(Statistic.GREATEST), "writes": 0}

    async def pulse(self, *names: str) -> None:
        """Raise inputs for a cycle, after a random gap."""
        for _ in range(self.rng.randint(0, MOST_GAP)):
            await FallingEdge(self.dut.clk)
        for name in names:
            getattr(self.dut, name).value = 1
        await FallingEdge(self.dut.clk)
        for name in names:
            getattr(self.dut, name).value = 0

    async def take(self, it: isa.Store | isa.Normalise) -> None:
        """Offer an instruction while another is in progress; the next cycles offer something else."""
        self.dut.offered.value = codec.encode(it, self.config)
        await self.pulse("takes")
        self.dut.offered.value = codec.encode(random_instruction(self.rng), self.config)
        await self.pulse()
        assert int(self.dut.differs.value) == int(kind(it) not in (None, self.kind))

    async def begin(self, it: isa.Store | isa.Normalise) -> None:
        """Begin an instruction; the next cycles show another."""
        self.dut.instruction.value = codec.encode(it, self.config)
        self.dut.empty.value = int(not it.x_size * it.y_size)
        await self.pulse("begins")
        self.dut.instruction.value = codec.encode(random_instruction(self.rng), self.config)
        self.dut.empty.value = self.rng.randrange(2)
        self.kind = kind(it) or self.kind

    async def check_sets(self, it: isa.Store | isa.Normalise) -> None:
        """Read the sets of parameters of an instruction: of values, then of normalisation."""
        writes = kind(it) is not None and it.normal > 0
        sets = [False] * (it.parameters > 0) + [True] * writes
        assert int(self.dut.base.value) == (4 * (it.normal - 1) if writes else 0)
        for number, second in enumerate(sets, 1):
            assert int(self.dut.second.value) == second
            assert int(self.dut.last_set.value) == (number == len(sets))
            await self.pulse("set_ends")
        assert int(self.dut.second.value) == 0

    async def check_reads(self, it: isa.Store | isa.Normalise) -> None:
        """Read elements of an instruction."""
        for first in (1, 0, 0):
            assert unpack(normal_kind_layout(), int(self.dut.kind.value)) == self.kind
            normal = unpack(normal_layout(), int(self.dut.normal.value))
            assert normal["valid"] == int(kind(it) is not None)
            assert normal["first"] == first
            assert not isinstance(it, isa.Normalise) or normal["anew"] == it.anew
            assert int(self.dut.gathers.value) == int(kind(it) is not None and not it.normal)
            await self.pulse("advance")


@cocotb.test()
async def test_each_read_is_told_what_its_instruction_says(dut):
    config, rng = configuration(), random.Random(1)
    await start(dut, *INPUTS)
    bench, following = Bench(dut, config, rng), random_instruction(rng)
    await bench.take(following)
    for _ in range(400):
        it, following = following, random_instruction(rng)
        await bench.begin(it)
        await bench.check_sets(it)
        await bench.check_reads(it)
        await bench.take(following)
