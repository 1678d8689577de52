"""Unit benches: each component alone in Icarus Verilog, against a small pure model."""

import pytest

from tests.hw.unit_harness import run_unit
from vdla.hw.address_guard import AddressGuard
from vdla.hw.alu import AluLane
from vdla.hw.banks import BankedScratchpad
from vdla.hw.bursts import RowCutter
from vdla.hw.classify import Classifier
from vdla.hw.compute import ComputeUnit
from vdla.hw.control import Registers, RunControl
from vdla.hw.dispatch import Dispatch
from vdla.hw.dma import Dma
from vdla.hw.fetch import Fetch
from vdla.hw.gather import GatherWindow
from vdla.hw.gemm import MultiplierArray
from vdla.hw.halves import HalvedScratchpad
from vdla.hw.load import LoadUnit
from vdla.hw.load_writes import WriteHalf
from vdla.hw.loader import LoadEngine, RequestHalf
from vdla.hw.normal_issue import NormalIssue
from vdla.hw.normalise import Normaliser
from vdla.hw.pipeline import Pipeline
from vdla.hw.queue import Queue
from vdla.hw.requantise import Requantiser
from vdla.hw.residual import ResidualAdder
from vdla.hw.scratchpad import Scratchpad
from vdla.hw.sequencer import Sequencer
from vdla.hw.spec.memories import loaded_by
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.vocabulary import NEEDED, Extension, MemoryType, Unit
from vdla.hw.store import StoreUnit
from vdla.hw.tables import TableLookup
from vdla.hw.tokens import TokenCounter
from vdla.hw.uop_guard import UopGuard
from vdla.hw.window import InputWindow

FULL = TINY.with_changes(name="full", acc_ports=2, alu_lanes=0, alu_stages=1, requantise_lanes=0)
NARROW = FULL.with_changes(
    name="narrow",
    batch=2,
    block_in=8,
    inp_bits=4,
    wgt_bits=2,
    acc_bits=16,
    gemm_stages=1,
    alu_lanes=2,
    alu_stages=2,
    alu_opcodes="MIN,SHR",
)
BATCH = NARROW.with_changes(name="batch", gemm_stages=2, alu_lanes=1, alu_opcodes=TINY.alu_opcodes)
DEEP = FULL.with_changes(name="deep", block_in=8, gemm_stages=6, alu_lanes=2)
NO_ALU = TINY.with_changes(name="no_alu", alu_opcodes=())
WIDE = FULL.with_changes(name="wide", bus_bits=512, burst_bytes=128)
PARTS = FULL.with_changes(name="parts", batch=2, block_out=32, wgt_buffer_bytes=8192, acc_buffer_bytes=65536)
OUTER = TINY.with_changes(name="outer", batch=4, block_in=1, block_out=8)
SLIDING = TINY.with_changes(name="sliding", block_in=8, block_out=8, extensions=tuple(Extension))
SLIDING_WIDE = SLIDING.with_changes(name="sliding_wide", block_in=16, block_out=16, wgt_buffer_bytes=8192)
GATHERING = TINY.with_changes(name="gathering", block_in=16, extensions=tuple(Extension))
PLAIN = TINY.with_changes(name="plain", extensions=())
VALUED = TINY.with_changes(name="valued", extensions=tuple(Extension))


EVERY = tuple(Extension)


def every_but(extension: Extension) -> tuple[Extension, ...]:
    """Return all other extensions, without those that need it."""
    return tuple(other for other in Extension if extension not in (other, NEEDED.get(other)))


FURTHER = FULL.with_changes(name="further", extensions=EVERY, res_buffer_bytes=8192)


# Each entry names the class of its component itself: by these names mutation testing finds the benches near a
# module. Of a component, benches that differ most from each other come first: they are all that a minute has
# time for.
UNITS = {
    "queue": (lambda config: Queue(16, config.max_requests), TINY.with_changes(max_requests=3)),
    "queue of one": (lambda config: Queue(16, config.max_requests), TINY.with_changes(max_requests=1)),
    "queue of two": (lambda config: Queue(16, config.max_requests), TINY.with_changes(max_requests=2)),
    "queue of a power of two": (
        lambda config: Queue(16, config.max_requests),
        TINY.with_changes(max_requests=16),
    ),
    "queue in block RAM": (lambda config: Queue(16, config.max_requests), TINY.with_changes(max_requests=40)),
    "tokens": (lambda config: TokenCounter(2), TINY),
    "alu": (AluLane, TINY),
    "alu two ports": (AluLane, TINY.with_changes(acc_ports=2)),
    "alu one stage": (AluLane, FULL),
    "alu narrow": (AluLane, NARROW),
    "alu narrow one stage": (AluLane, NARROW.with_changes(alu_stages=1, alu_opcodes="MAX,ADD,SHR,MUL")),
    "array": (MultiplierArray, TINY),
    "array narrow": (MultiplierArray, NARROW),
    "array deep": (MultiplierArray, DEEP),
    "array packed": (MultiplierArray, DEEP.with_changes(packed=18)),
    "array packed wide": (MultiplierArray, TINY.with_changes(packed=25)),
    "array packed narrow": (MultiplierArray, NARROW.with_changes(packed=18)),
    "array packed mixed": (MultiplierArray, BATCH.with_changes(packed=18, wgt_bits=8)),
    "array sliding": (MultiplierArray, SLIDING.with_changes(batch=2, inp_bits=4)),
    "array sliding packed": (MultiplierArray, SLIDING.with_changes(packed=18)),
    "products": (MultiplierArray, OUTER.with_changes(packed=18)),
    "products at once": (MultiplierArray, OUTER.with_changes(packed=25, gemm_stages=1)),
    "sequencer": (Sequencer, TINY),
    "sequencer narrow": (Sequencer, NARROW),
    "sequencer two ports": (Sequencer, TINY.with_changes(acc_ports=2)),
    "sequencer one slot": (Sequencer, FULL.with_changes(acc_ports=1)),
    "sequencer batch": (Sequencer, BATCH),
    "sequencer no_alu": (Sequencer, NO_ALU),
    "sequencer sliding wide": (Sequencer, SLIDING_WIDE),
    "sequencer without rows": (
        Sequencer,
        SLIDING.with_changes(extensions=every_but(Extension.DEPTHWISE_ROWS)),
    ),
    "sequencer sliding": (Sequencer, SLIDING.with_changes(alu_lanes=0, alu_stages=1)),
    "window": (InputWindow, TINY),
    "window sliding": (InputWindow, SLIDING.with_changes(batch=2)),
    "window sliding two ports": (InputWindow, SLIDING.with_changes(batch=2, acc_ports=2)),
    "window sliding wide": (InputWindow, SLIDING_WIDE.with_changes(acc_ports=2)),
    "window sliding packed": (InputWindow, SLIDING_WIDE.with_changes(packed=18, inp_bits=4)),
    "window without rows": (
        InputWindow,
        SLIDING.with_changes(extensions=every_but(Extension.DEPTHWISE_ROWS)),
    ),
    "banks": (BankedScratchpad, SLIDING),
    "banks wide": (BankedScratchpad, SLIDING_WIDE),
    "load": (LoadUnit, TINY),
    "load wide": (LoadUnit, WIDE),
    "load narrow": (LoadUnit, NARROW),
    "load parts": (LoadUnit, PARTS),
    "load valued": (LoadUnit, VALUED),
    "load valued narrow": (LoadUnit, NARROW.with_changes(extensions=(*NARROW.extensions, "pad_value"))),
    "load valued wide": (LoadUnit, WIDE.with_changes(extensions=tuple(Extension))),
    "load gathering": (LoadUnit, GATHERING),
    "load gathering wide": (LoadUnit, GATHERING.with_changes(bus_bits=256, block_in=4, batch=1)),
    "load gathering narrow": (LoadUnit, NARROW.with_changes(extensions=tuple(Extension))),
    "engine": (lambda config: LoadEngine(config, loaded_by(Unit.COMPUTE, config)), TINY),
    "engine further": (lambda config: LoadEngine(config, loaded_by(Unit.COMPUTE, config)), FURTHER),
    "engine further wide": (
        lambda config: LoadEngine(config, loaded_by(Unit.COMPUTE, config)),
        WIDE.with_changes(extensions=EVERY, res_buffer_bytes=8192),
    ),
    "engine further narrow": (
        lambda config: LoadEngine(config, loaded_by(Unit.COMPUTE, config)),
        NARROW.with_changes(extensions=EVERY, res_buffer_bytes=8192),
    ),
    "requests gathering": (
        lambda config: RequestHalf(config, loaded_by(Unit.LOAD)),
        GATHERING.with_changes(burst_bytes=2048),
    ),
    "gather": (GatherWindow, GATHERING),
    "gather wide": (GatherWindow, GATHERING.with_changes(bus_bits=512, burst_bytes=128)),
    "requests": (
        lambda config: RequestHalf(config, loaded_by(Unit.LOAD)),
        TINY.with_changes(burst_bytes=2048),
    ),
    "writes": (lambda config: WriteHalf(config, (MemoryType.INP,)), PLAIN.with_changes(block_in=8)),
    "pads": (lambda config: WriteHalf(config, loaded_by(Unit.COMPUTE, config)), VALUED),
    "pads narrow": (
        lambda config: WriteHalf(config, loaded_by(Unit.COMPUTE, config)),
        NARROW.with_changes(extensions=EVERY, res_buffer_bytes=8192),
    ),
    "store": (StoreUnit, FULL),
    "store one port plain": (StoreUnit, PARTS.with_changes(acc_ports=1, extensions=(), gemm_stages=8)),
    "store further lanes": (StoreUnit, PARTS.with_changes(extensions=EVERY, requantise_lanes=4)),
    "store one port narrow": (
        StoreUnit,
        NARROW.with_changes(acc_ports=1, extensions=EVERY, res_buffer_bytes=8192),
    ),
    "store feedback": (
        StoreUnit,
        VALUED.with_changes(acc_ports=2, requantise_lanes=2, res_buffer_bytes=8192),
    ),
    "store feedback plain": (
        StoreUnit,
        PLAIN.with_changes(acc_ports=2, batch=4, bus_bits=64, extensions=(Extension.FEEDBACK,)),
    ),
    "store short bursts": (StoreUnit, WIDE.with_changes(bus_bits=256, burst_bytes=32)),
    "store plain": (StoreUnit, PLAIN),
    "store one port further": (
        StoreUnit,
        PARTS.with_changes(acc_ports=1, extensions=EVERY, requantise_lanes=4),
    ),
    "store further narrow": (StoreUnit, NARROW.with_changes(extensions=EVERY, res_buffer_bytes=8192)),
    "store table": (
        StoreUnit,
        FURTHER.with_changes(extensions=every_but(Extension.RESIDUAL), requantise_lanes=1),
    ),
    "store without normalising": (
        StoreUnit,
        FURTHER.with_changes(extensions=every_but(Extension.NORMALISE)),
    ),
    "store residual": (StoreUnit, FURTHER.with_changes(extensions=every_but(Extension.TABLE))),
    "store lanes narrow": (StoreUnit, NARROW.with_changes(requantise_lanes=2)),
    "store wide": (StoreUnit, WIDE),
    "store parts": (StoreUnit, PARTS),
    "store lanes wide": (StoreUnit, WIDE.with_changes(requantise_lanes=2)),
    "store one port lanes": (StoreUnit, WIDE.with_changes(acc_ports=1, requantise_lanes=2)),
    "store further": (StoreUnit, FURTHER),
    "store narrow": (StoreUnit, NARROW),
    "store lanes": (StoreUnit, TINY.with_changes(requantise_lanes=1)),
    "store lanes parts": (StoreUnit, PARTS.with_changes(requantise_lanes=4)),
    "store one port": (StoreUnit, FULL.with_changes(acc_ports=1)),
    "tables": (TableLookup, FURTHER),
    "tables without powers": (TableLookup, FURTHER.with_changes(extensions=every_but(Extension.NORMALISE))),
    "kinds": (NormalIssue, FURTHER),
    "normalise": (Normaliser, FURTHER.with_changes(block_out=8, block_in=8, requantise_lanes=4)),
    "normalise one lane": (Normaliser, FURTHER.with_changes(requantise_lanes=1)),
    "normalise whole": (
        Normaliser,
        FURTHER.with_changes(block_out=16, block_in=16, bus_bits=128, acc_buffer_bytes=32768),
    ),
    "residual": (lambda config: ResidualAdder(config, 12), FURTHER),
    "residual parts": (lambda config: ResidualAdder(config, 9), BATCH.with_changes(extensions=EVERY)),
    "requantise": (Requantiser, TINY),
    "requantise narrow": (Requantiser, NARROW),
    "requantise parts": (Requantiser, PARTS.with_changes(requantise_lanes=4)),
    "pipeline": (Pipeline, TINY),
    "pipeline full": (Pipeline, FULL),
    "pipeline pieces": (Pipeline, TINY.with_changes(block_out=16, acc_buffer_bytes=32768)),
    "pipeline deep": (Pipeline, DEEP),
    "pipeline batch": (Pipeline, BATCH),
    "pipeline one port": (Pipeline, FULL.with_changes(acc_ports=1)),
    "pipeline one port batch": (Pipeline, BATCH.with_changes(acc_ports=1)),
    "pipeline one port narrow": (Pipeline, NARROW.with_changes(acc_ports=1)),
    "pipeline two ports": (Pipeline, TINY.with_changes(acc_ports=2)),
    "pipeline two ports sliding": (Pipeline, SLIDING.with_changes(acc_ports=2, alu_lanes=0)),
    "pipeline narrow": (Pipeline, NARROW),
    "pipeline no_alu": (Pipeline, NO_ALU),
    "uops": (UopGuard, TINY),
    "pipeline sliding wide": (Pipeline, SLIDING_WIDE.with_changes(gemm_stages=1)),
    "pipeline without rows": (
        Pipeline,
        SLIDING.with_changes(extensions=every_but(Extension.DEPTHWISE_ROWS)),
    ),
    "pipeline sliding": (Pipeline, SLIDING.with_changes(packed=18)),
    "uops further": (UopGuard, FURTHER),
    "compute": (ComputeUnit, VALUED),
    "compute two ports": (ComputeUnit, VALUED.with_changes(acc_ports=2)),
    "compute plain": (ComputeUnit, PLAIN.with_changes(acc_ports=2)),
    "fetch": (Fetch, TINY),
    "fetch wide": (Fetch, WIDE),
    "classify": (Classifier, TINY),
    "classify sliding": (Classifier, SLIDING),
    "classify normalising": (Classifier, FURTHER),
    "classify narrow weights": (Classifier, SLIDING.with_changes(wgt_bits=4)),
    "classify plain": (Classifier, PLAIN.with_changes(alu_opcodes="MAX")),
    "dispatch": (Dispatch, TINY),
    "control": (lambda config: RunControl(), TINY),
    "registers": (Registers, TINY),
    "rows": (lambda config: RowCutter(config, 20), TINY),
    "rows wide": (lambda config: RowCutter(config, 20), WIDE),
    "rows of beats": (lambda config: RowCutter(config, 20), WIDE.with_changes(burst_bytes=64)),
    "scratchpad": (lambda config: Scratchpad(config, MemoryType.ACC), TINY),
    "scratchpad wide": (lambda config: Scratchpad(config, MemoryType.ACC), WIDE),
    "halves": (lambda config: HalvedScratchpad(config, MemoryType.ACC), VALUED),
    "halves wide": (
        lambda config: HalvedScratchpad(config, MemoryType.ACC),
        WIDE.with_changes(extensions=tuple(Extension)),
    ),
    "dma": (Dma, TINY.with_changes(max_requests=3)),
    "guard": (AddressGuard, TINY.with_changes(max_requests=3, axi_address_bits=32)),
}


SLOW = (
    "products at once",
    "array deep",
    "window sliding wide",
    "pipeline sliding wide",
    "pipeline two ports sliding",
    "residual parts",
    "store short bursts",
    "store lanes narrow",
    "store lanes wide",
    "store one port lanes",
    "store one port narrow",
    "store one port plain",
    "requantise narrow",
    "requantise parts",
    "store further lanes",
    "store further narrow",
    "store lanes parts",
    "store one port further",
    "store parts",
)
"""Benches of more than five seconds, of units that other benches look at too."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in UNITS]
)
def test_unit(tmp_path, name):
    make, config = UNITS[name]
    assert run_unit(tmp_path, make(config), config, f"bench_{name.split()[0]}") > 0
