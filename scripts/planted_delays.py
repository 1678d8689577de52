#!/usr/bin/env python3
"""Show that the comparison of cycles and counters notices a change of one cycle anywhere in the hardware.

The script changes the timing of one place of the RTL after another. It runs random programs on that hardware
and on the unchanged cycle simulator. It prints how many programs took other cycles, and how many have other
cycles or counters. Exit status 1 if a change shows in no program.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from unittest.mock import patch

import click
from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import connect, flipped
from generators.programs import IMAGE_BYTES, random_program
from random_programs import compare_time

import vdla.hw.core
import vdla.hw.load_writes
import vdla.hw.loader
import vdla.hw.normal_issue
import vdla.hw.pipeline
import vdla.hw.store_beats
import vdla.hw.store_outputs
import vdla.hw.store_reads
from vdla.hw.layouts import decode
from vdla.hw.queue import Queue
from vdla.hw.sources import sources
from vdla.hw.spec import isa
from vdla.hw.spec.cache import digest_of
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import VdlaError
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.timing import given_stage, store_stages
from vdla.hw.spec.vocabulary import Extension, MemoryType
from vdla.hw.verilog import emit
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.rtl.build import Optimise
from vdla.runtime.devices.rtl.design import Design, core_sources
from vdla.runtime.devices.rtl.device import RtlDevice

CONFIG = TINY.with_changes(name="fed", extensions=(*TINY.extensions, Extension.FEEDBACK))
"""The preset `tiny`, with the path from the store unit to INP."""
NORMALISING = CONFIG.with_changes(
    name="normalising",
    extensions=(*CONFIG.extensions, Extension.TABLE, Extension.NORMALISE, Extension.NARROW_WEIGHTS),
)
"""With NORMALISE and narrow weights; the store unit takes slots of the compute unit for its reads."""
SHADOWED = NORMALISING.with_changes(name="shadowed", acc_ports=2)
"""The store unit has a read port of its own."""


class Wrapped(wiring.Component):
    """A component with a delay at one of its members."""

    def __init__(self, inner: wiring.Component, delayed: str) -> None:
        self.inner, self.delayed = inner, delayed
        super().__init__(dict(inner.signature.members.items()))

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.inner = self.inner
        for name, member in self.signature.members.items():
            outside, inside = getattr(self, name), getattr(self.inner, name)
            if name == self.delayed:
                self._delay(m, outside, inside, member.flow)
            elif member.is_signature:
                connect(m, flipped(outside), inside)
            else:
                m.d.comb += outside.eq(inside) if member.flow is wiring.Out else inside.eq(outside)
        return m

    def _delay(self, m: Module, outside, inside, flow) -> None:
        raise NotImplementedError


class Late(Wrapped):
    """A component with a register more in one of its streams."""

    def _delay(self, m: Module, outside, inside, flow) -> None:
        m.submodules.late = late = Queue(inside.payload.shape(), 2)
        source, sink = (inside, outside) if flow is wiring.Out else (outside, inside)
        m.d.comb += [
            late.i.valid.eq(source.valid),
            source.ready.eq(late.i.ready),
            late.i.payload.eq(source.payload),
            sink.valid.eq(late.o.valid),
            late.o.ready.eq(sink.ready),
            sink.payload.eq(late.o.payload),
        ]


class LateTokens(vdla.hw.core.TokenCounter):
    """A token counter that hears of a push one cycle late."""

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.inner = inner = vdla.hw.tokens.TokenCounter(self.depth)
        pushed = Signal()
        m.d.sync += pushed.eq(self.sink.push)
        connect(m, flipped(self.source), inner.source)
        m.d.comb += [
            self.sink.room.eq(inner.sink.room),
            inner.sink.reserve.eq(self.sink.reserve),
            inner.sink.push.eq(pushed),
        ]
        return m


class LateInputs(vdla.hw.store_beats.InputFormer):
    """A writer of INP that announces and writes each element one cycle late."""

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.inner = inner = vdla.hw.store_beats.InputFormer(self.config)
        for name in ("coming", "read", "outputs"):
            m.d.comb += getattr(inner, name).eq(getattr(self, name))
        for name in self.write.signature.members:
            m.d.sync += getattr(self.write, name).eq(getattr(inner.write, name))
        return m


class LateSettled(Wrapped):
    """Stages of the store unit whose `settled` rises one cycle late."""

    def _delay(self, m: Module, outside, inside, flow) -> None:
        before = Signal()
        m.d.sync += before.eq(inside)
        m.d.comb += outside.eq(inside & before)


class LateNarrow(Wrapped):
    """Requests of LOADs, where a LOAD of narrow weights is taken one cycle late."""

    def _delay(self, m: Module, outside, inside, flow) -> None:
        load = decode(isa.Load, self.inner.config, outside.payload)
        narrow = (load.memory_type == MemoryType.WGT) & (load.halvings != 0)
        waited = Signal()
        m.d.sync += waited.eq(outside.valid & inside.ready & ~waited)
        m.d.comb += [
            inside.payload.eq(outside.payload),
            inside.valid.eq(outside.valid & (waited | ~narrow)),
            outside.ready.eq(inside.ready & (waited | ~narrow)),
        ]


class LateNarrowWrites(vdla.hw.load_writes.WriteHalf):
    """A writing half that writes nothing in the first cycle of a LOAD of narrow weights."""

    def elaborate(self, platform) -> Module:
        self._begins = Signal()
        m = super().elaborate(platform)
        narrow = [each.name for each in sources(self.config, self.memories) if each.halvings]
        chosen = Cat(self.plan.payload[name] for name in narrow).any()
        m.d.sync += self._begins.eq(self.plan.ready & self.plan.valid & chosen)
        return m

    def _may(self, load, waits: Value) -> Value:
        return super()._may(load, waits) & ~self._begins


class LateParameters(vdla.hw.store_reads.ReadIssue):
    """An issue of reads that pauses for a cycle in front of each set of parameters of normalisation."""

    def _lent(self, m: Module) -> Value:
        before, second = Signal(), self._normal.second
        m.d.sync += before.eq(second)
        return super()._lent(m) | (second & ~before)


class DifferentKinds(vdla.hw.normal_issue.NormalIssue):
    """An issue for which every NORMALISE is of another kind than the NORMALISE before it, or none is."""

    differ = True

    def _compare(self, m: Module) -> None:
        present = decode(isa.Instruction, self.config, self.offered).opcode == isa.Opcode.NORMALISE
        with m.If(self.takes):
            m.d.sync += self.differs.eq(present & self.differ)


class OneKind(DifferentKinds):
    """An issue for which all NORMALISEs are of one kind."""

    differ = False


def _late(name: str, stream: str):
    return _wrapped(vdla.hw.core, name, Late, stream)


def _wrapped(module, name: str, wrapper: type[Wrapped], delayed: str):
    original = getattr(module, name)
    return patch.object(module, name, lambda *given: wrapper(original(*given), delayed))


@contextmanager
def _longer_pipeline() -> Iterator[None]:
    with patch.object(vdla.hw.pipeline, "given_stage", lambda stages: given_stage(stages) + 1):
        yield


def _longer_stages():
    return patch.object(vdla.hw.store_outputs, "store_stages", lambda *given: store_stages(*given) + 1)


@dataclass(frozen=True)
class Plant:
    """A delay: what plants it, and the configurations in which it must be noticed."""

    planted: Callable[[], AbstractContextManager[object]]
    configs: tuple[AcceleratorConfig, ...] = (CONFIG,)


BOTH = NORMALISING, SHADOWED
PLANTS = {
    "fetch: instructions come a cycle later": Plant(lambda: _late("Fetch", "instruction")),
    "load unit: instructions come a cycle later": Plant(lambda: _late("LoadUnit", "instruction")),
    "load unit: requests leave a cycle later": Plant(lambda: _late("LoadUnit", "request")),
    "load unit: read data come a cycle later": Plant(lambda: _late("LoadUnit", "read_data")),
    "load unit: narrow weights are requested a cycle later": Plant(
        lambda: _wrapped(vdla.hw.loader, "RequestHalf", LateNarrow, "instruction"), (NORMALISING,)
    ),
    "load unit: narrow weights are written a cycle later": Plant(
        lambda: patch.object(vdla.hw.loader, "WriteHalf", LateNarrowWrites), (NORMALISING,)
    ),
    "compute unit: instructions come a cycle later": Plant(lambda: _late("ComputeUnit", "instruction")),
    "compute unit: one more stage in the pipeline": Plant(_longer_pipeline),
    "compute unit: requests leave a cycle later": Plant(lambda: _late("ComputeUnit", "request")),
    "store unit: instructions come a cycle later": Plant(lambda: _late("StoreUnit", "instruction")),
    "store unit: requests leave a cycle later": Plant(lambda: _late("StoreUnit", "request")),
    "store unit: inputs are written a cycle later": Plant(
        lambda: patch.object(vdla.hw.store_reads, "InputFormer", LateInputs)
    ),
    "store unit: one more stage before the beats": Plant(_longer_stages, (CONFIG, *BOTH)),
    "store unit: another kind waits a cycle longer": Plant(
        lambda: _wrapped(vdla.hw.store_reads, "OutputPath", LateSettled, "settled"), BOTH
    ),
    "store unit: the same kind waits, too": Plant(
        lambda: patch.object(vdla.hw.store_reads, "NormalIssue", DifferentKinds), BOTH
    ),
    "store unit: another kind does not wait": Plant(
        lambda: patch.object(vdla.hw.store_reads, "NormalIssue", OneKind), BOTH
    ),
    "store unit: parameters of rows come a cycle later": Plant(
        lambda: patch.object(vdla.hw.store_reads, "ReadIssue", LateParameters), BOTH
    ),
    "tokens: a push counts a cycle later": Plant(
        lambda: patch.object(vdla.hw.core, "TokenCounter", LateTokens)
    ),
}
CASES = [(name, config) for name, plant in PLANTS.items() for config in plant.configs]


def planted_design(name: str) -> Design:
    """Return the core with the delay `name` in it."""

    def emit_planted(config: AcceleratorConfig) -> str:
        with PLANTS[name].planted():
            return emit(config, top="core")

    return Design(emit_planted, lambda: digest_of(["planted", name, core_sources()]))


@dataclass
class Differences:
    """Programs that take other cycles on planted hardware, and programs with other cycles or counters.

    A program that does not end on planted hardware counts as both.
    """

    cycles: int = 0
    all: int = 0


def differences(name: str, config: AcceleratorConfig, programs: int) -> Differences:
    """Run `programs` random programs on the hardware with the delay `name`, and on the simulator."""
    planted = RtlDevice(config, 2 * IMAGE_BYTES, optimise=Optimise.BUILD, design=planted_design(name))
    simulator = CycleDevice(config, 2 * IMAGE_BYTES, arithmetic=False)
    counts = Differences()
    for seed in range(programs):
        program = random_program(config, seed, 30)
        expected, _ = program.run_on(simulator)
        try:
            result, _ = program.run_on(planted)
        except VdlaError:
            counts.cycles, counts.all = counts.cycles + 1, counts.all + 1
            continue
        counts.cycles += result.cycles != expected.cycles
        counts.all += bool(compare_time(result, expected))
    return counts


@click.command(help=__doc__)
@click.option("--programs", default=20, show_default=True, help="Random programs per delay.")
@click.option("--only", default="", metavar="TEXT", help="Only delays whose name contains TEXT.")
def main(programs: int, only: str) -> None:
    missed = 0
    click.echo(f"of {programs} programs, how many have other cycles / other cycles or counters")
    for name, config in CASES:
        if only not in name:
            continue
        counts = differences(name, config, programs)
        missed += not counts.all
        click.echo(
            f"{name:54} {config.name:12} {counts.cycles:4} {counts.all:4}{'' if counts.all else '  MISSED'}"
        )
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
