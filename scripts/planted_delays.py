#!/usr/bin/env python3
"""Show that the cycle-equality check notices a change of one cycle anywhere in the hardware.

The script adds a register at one place of the RTL after another and runs random programs on that hardware and
on the unchanged cycle simulator. It prints how many programs took other cycles. Exit status 1 if none did.
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import click
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import connect, flipped
from generators.programs import IMAGE_BYTES, random_program

import vdla.hw.core
import vdla.hw.pipeline
import vdla.hw.store_beats
import vdla.hw.store_reads
from vdla.hw.queue import Queue
from vdla.hw.spec.cache import digest_of
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import VdlaError
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.timing import given_stage
from vdla.hw.spec.vocabulary import Extension
from vdla.hw.verilog import emit
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.rtl.build import Optimise
from vdla.runtime.devices.rtl.design import Design, core_sources
from vdla.runtime.devices.rtl.device import RtlDevice

CONFIG = TINY.with_changes(name="fed", extensions=(*TINY.extensions, Extension.FEEDBACK))
"""What is changed: the preset `tiny`, with the path from the store unit to INP."""


class Late(wiring.Component):
    """A component with a register more in one of its streams."""

    def __init__(self, inner: wiring.Component, stream: str) -> None:
        self.inner, self.stream = inner, stream
        super().__init__(dict(inner.signature.members.items()))

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.inner = self.inner
        for name, member in self.signature.members.items():
            outside, inside = getattr(self, name), getattr(self.inner, name)
            if name == self.stream:
                self._delay(m, outside, inside, member.flow)
            elif member.is_signature:
                connect(m, flipped(outside), inside)
            else:
                m.d.comb += outside.eq(inside) if member.flow is wiring.Out else inside.eq(outside)
        return m

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


def _late(name: str, stream: str):
    original = getattr(vdla.hw.core, name)
    return patch.object(vdla.hw.core, name, lambda config: Late(original(config), stream))


@contextmanager
def _longer_pipeline() -> Iterator[None]:
    with patch.object(vdla.hw.pipeline, "given_stage", lambda stages: given_stage(stages) + 1):
        yield


PLANTS = {
    "fetch: instructions come a cycle later": lambda: _late("Fetch", "instruction"),
    "load unit: instructions come a cycle later": lambda: _late("LoadUnit", "instruction"),
    "load unit: requests leave a cycle later": lambda: _late("LoadUnit", "request"),
    "load unit: read data come a cycle later": lambda: _late("LoadUnit", "read_data"),
    "compute unit: instructions come a cycle later": lambda: _late("ComputeUnit", "instruction"),
    "compute unit: one more stage in the pipeline": _longer_pipeline,
    "compute unit: requests leave a cycle later": lambda: _late("ComputeUnit", "request"),
    "store unit: instructions come a cycle later": lambda: _late("StoreUnit", "instruction"),
    "store unit: requests leave a cycle later": lambda: _late("StoreUnit", "request"),
    "store unit: inputs are written a cycle later": lambda: patch.object(
        vdla.hw.store_reads, "InputFormer", LateInputs
    ),
    "tokens: a push counts a cycle later": lambda: patch.object(vdla.hw.core, "TokenCounter", LateTokens),
}


def planted_design(name: str) -> Design:
    """Return the core with the delay `name` in it."""

    def emit_planted(config: AcceleratorConfig) -> str:
        with ExitStack() as stack:
            stack.enter_context(PLANTS[name]())
            return emit(config, top="core")

    return Design(emit_planted, lambda: digest_of(["planted", name, core_sources()]))


def programs_that_differ(name: str, programs: int) -> int:
    """Return how many of `programs` random programs take other cycles on the planted hardware, or do not even
    end there."""
    planted = RtlDevice(CONFIG, 2 * IMAGE_BYTES, optimise=Optimise.BUILD, design=planted_design(name))
    simulator = CycleDevice(CONFIG, 2 * IMAGE_BYTES, arithmetic=False)
    return sum(_differs(random_program(CONFIG, seed, 30), planted, simulator) for seed in range(programs))


def _differs(program, planted: RtlDevice, simulator: CycleDevice) -> bool:
    expected, _ = program.run_on(simulator)
    try:
        return program.run_on(planted)[0].cycles != expected.cycles
    except VdlaError:
        return True


@click.command(help=__doc__)
@click.option("--programs", default=20, show_default=True, help="random programs per delay")
def main(programs: int) -> None:
    missed = 0
    for name in PLANTS:
        slower = programs_that_differ(name, programs)
        missed += not slower
        click.echo(
            f"{name:50} {slower:4} of {programs} programs take other cycles{'' if slower else '  MISSED'}"
        )
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
