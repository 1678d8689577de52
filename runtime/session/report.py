"""The report of a network's run: cycles of each layer, and what bounded it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.registers import UnitState
from vdla.hw.spec.sdram import AnyMemory
from vdla.hw.spec.target import EnergyTable, Target
from vdla.hw.spec.units import Unit
from vdla.runtime.module.plan import HostStep, LaunchStep, Layer, Plan
from vdla.runtime.session.session import Outcome, Ran
from vdla.sim.energy import COMPONENTS, by_component, energies
from vdla.sim.records import IntArray
from vdla.sim.timing.result import Timing
from vdla.sim.timing.simulate import simulate

ACCELERATOR, HOST = "accelerator", "host"
MOSTLY = 0.6  # of a layer's cycles that its bound takes at least


@dataclass(frozen=True)
class LayerReport:
    """One operator's share of a run.

    Attributes:
        on: "accelerator" or "host".
        bytes_once: of its operands and its result in DRAM, each counted once, without the constants that a
            layer of the launch before it reads; 0 on the host.
        roofline_cycles: the larger of its MACs at full use of the multipliers and of `bytes_once` at full use
            of the bus: a lower bound for this layer, if no operand is on chip before; None on the host and
            on untimed devices.
        cycles: from the end of the layer before to the end of its last instruction; None on the host and on
            untimed devices.
        utilisation: of the multipliers; None where there are no cycles.
        busy: cycles in which each unit worked.
        energy_pj: of its instructions; None on the host and on untimed devices.
        energy: `energy_pj` by component, as `vdla.sim.energy.COMPONENTS` names them, without zeros.
        bound: what took at least MOSTLY of its cycles: "compute" or "memory"; "latency" if neither did.
        reason: why it runs on the host; "" on the accelerator.
        seconds: its cycles at the given clock; on the host, measured on this machine; None where unknown.
    """

    name: str
    op: str
    on: str
    cycles: int | None
    macs: int
    utilisation: float | None
    bytes_read: int
    bytes_written: int
    bytes_once: int = 0
    roofline_cycles: int | None = None
    busy: Mapping[str, int] = field(default_factory=dict)
    energy_pj: float | None = None
    bound: str = ""
    reason: str = ""
    seconds: float | None = None
    energy: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    """A whole run.

    Attributes:
        seconds: of the accelerator at the given clock; None on untimed devices.
        macs: of the accelerator.
        utilisation: of the multipliers; None on untimed devices.
        energy_pj: of all instructions, also of instructions of no layer; None on untimed devices.
        energy: `energy_pj` by component, as `vdla.sim.energy.COMPONENTS` names them, without zeros.
        roofline_cycles: sum over the layers; None on untimed devices.
        host_macs: of the operators on the host.
        host_seconds: of the operators on the host, measured on this machine; None where nothing ran.
        copy_seconds: of changing layouts and copying between host and accelerator, likewise.
        runs: how many runs there were, one for each sample; all figures are of one run, times of the host
            the average.
    """

    device: str
    cycles: int | None
    seconds: float | None
    macs: int
    utilisation: float | None
    energy_pj: float | None
    layers: tuple[LayerReport, ...]
    roofline_cycles: int | None = None
    host_macs: int = 0
    host_seconds: float | None = None
    copy_seconds: float | None = None
    energy: Mapping[str, float] = field(default_factory=dict)
    runs: int = 1

    @property
    def bytes_moved(self) -> int:
        """Bytes that all layers read and write in DRAM."""
        return sum(layer.bytes_read + layer.bytes_written for layer in self.layers)

    @property
    def bytes_once(self) -> int:
        """Sum of `LayerReport.bytes_once` of all layers."""
        return sum(layer.bytes_once for layer in self.layers)

    def to_json(self) -> dict[str, object]:
        """Return it as plain JSON values."""
        return asdict(self)


def report(
    plan: Plan,
    outcome: Outcome,
    device: str,
    clock_hz: float | None = None,
    memory: AnyMemory | None = None,
) -> Report:
    """Build the report of a run; for the RTL, the cycle simulator finds the cycles of each layer.

    Args:
        clock_hz: turns cycles into time; None: the clock of the plan's target.
        memory: of the device that ran it; None: the memory of the plan's target.
    """
    clock_hz, memory = clock_hz or plan.target.clock_hz, memory or plan.target.memory
    measured = [_measured(ran, memory, plan.target.energy) for ran in outcome.launches]
    layers = [
        layer if layer.cycles is None else replace(layer, seconds=layer.cycles / clock_hz)
        for layer in _layers(plan.steps, measured, outcome.host_seconds, replace(plan.target, memory=memory))
    ]
    macs, host_macs = (sum(layer.macs for layer in layers if layer.on == on) for on in (ACCELERATOR, HOST))
    cycles = outcome.cycles
    energy = (
        by_component(np.concatenate([launch.energies for launch in measured], axis=1)) if measured else {}
    )
    return Report(
        device,
        cycles,
        None if cycles is None else cycles / clock_hz,
        macs,
        _utilisation(macs, cycles, plan.config),
        None if cycles is None else sum(energy.values()),
        tuple(layers),
        None if cycles is None else sum(layer.roofline_cycles or 0 for layer in layers),
        host_macs,
        sum(outcome.host_seconds) if outcome.ran else None,
        outcome.copy_seconds if outcome.ran else None,
        energy,
        outcome.runs,
    )


def _layers(
    steps: Iterable[HostStep | LaunchStep],
    measured: "Iterable[_Measured]",
    host_seconds: Iterable[float],
    ran_on: Target,
) -> Iterator[LayerReport]:
    """Yield the reports of all layers in the order of the steps, without times of the accelerator."""
    launches, host = iter(measured), iter(host_seconds)
    for step in steps:
        if isinstance(step, HostStep):
            yield from _host(step, next(host, None))
        else:
            yield from _launch(next(launches), ran_on)


@dataclass(frozen=True, eq=False)
class _Measured:
    """A launch with what is known of it on a timed device.

    Attributes:
        timing: None on untimed devices.
        energies: float64[components, n], as `vdla.sim.energy.energies` gives it; n is 0 on untimed devices.
    """

    ran: Ran
    timing: Timing | None
    energies: NDArray[np.float64]

    def instructions(self, layer: Layer) -> IntArray:
        """Return the instructions of a layer that has a label."""
        return self.ran.launch.stream.labels[layer.label]


def _measured(ran: Ran, memory: AnyMemory, energy: EnergyTable) -> _Measured:
    timing = _timing(ran, memory)
    none = np.zeros((len(COMPONENTS), 0))
    return _Measured(ran, timing, none if timing is None else energies(timing.program, energy))


def _host(step: HostStep, seconds: float | None) -> Iterator[LayerReport]:
    yield LayerReport(
        step.name, step.op, HOST, None, step.macs, None, 0, 0, reason=step.reason, seconds=seconds
    )


def _launch(measured: _Measured, target: Target) -> Iterator[LayerReport]:
    timing, layers = measured.timing, measured.ran.step.layers
    work = None if timing is None else _Work(timing)
    begin = 0
    for number, layer in enumerate(layers):
        if timing is None or work is None:
            yield _untimed(layer)
            continue
        last = not any(other.label for other in layers[number + 1 :])
        instructions = measured.instructions(layer) if layer.label else np.zeros(0, np.int64)
        end = timing.cycles if last else int(timing.retired[instructions].max(initial=begin))
        timed = _timed(layer, begin, end, work, target)
        energy = by_component(measured.energies[:, instructions])
        yield replace(timed, energy_pj=sum(energy.values()), energy=energy)
        begin = end


def _timing(ran: Ran, memory: AnyMemory) -> Timing | None:
    """Return the timing of a launch; None on untimed devices."""
    if ran.timing is not None or ran.result.cycles is None:
        return ran.timing
    return simulate(ran.launch.program(), memory, stream_address=ran.launch.stream_address, log=True)


def _untimed(layer: Layer) -> LayerReport:
    return LayerReport(
        layer.name,
        layer.op,
        ACCELERATOR,
        None,
        layer.macs,
        None,
        layer.bytes_read,
        layer.bytes_written,
        layer.bytes_once,
    )


class _Work:
    """How long each unit worked.

    Attributes:
        spans: for each unit, by its name, the begins int64[n] and the ends int64[n] of its spans of work, in
            order, and the sum int64[n + 1] of the cycles of the preceding spans. Empty without a log.
    """

    def __init__(self, timing: Timing) -> None:
        self.spans: dict[str, tuple[IntArray, IntArray, IntArray]] = {}
        if timing.log is None:
            return
        busy = timing.log.spans[timing.log.spans["state"] == tuple(UnitState).index(UnitState.BUSY)]
        for unit in Unit:
            spans = np.sort(busy[busy["unit"] == unit], order="begin")
            begins, ends = spans["begin"].astype(np.int64), spans["end"].astype(np.int64)
            before = np.concatenate([[0], np.cumsum(ends - begins)])
            self.spans[unit.name.lower()] = begins, ends, before

    def within(self, begin: int, end: int) -> dict[str, int]:
        """Return the cycles of each unit's work within an interval."""
        return {name: self._until(name, end) - self._until(name, begin) for name in self.spans}

    def _until(self, name: str, cycle: int) -> int:
        begins, ends, before = self.spans[name]
        count = int(np.searchsorted(begins, cycle))
        rest = max(0, int(ends[count - 1]) - cycle) if count else 0  # of the span that goes on then
        return int(before[count]) - rest


def _timed(layer: Layer, begin: int, end: int, work: _Work, target: Target) -> LayerReport:
    cycles = end - begin
    busy = work.within(begin, end)
    return replace(
        _untimed(layer),
        cycles=cycles,
        utilisation=_utilisation(layer.macs, cycles, target.config),
        busy=busy,
        roofline_cycles=_roofline(layer, target),
        bound=_bound(layer, cycles, busy, target),
    )


def _bound(layer: Layer, cycles: int, busy: Mapping[str, int], target: Target) -> str:
    if not cycles:
        return ""
    shares = {
        "compute": busy.get("compute", 0),
        "memory": (layer.bytes_read + layer.bytes_written) / target.bytes_per_cycle,
    }
    name = max(shares, key=lambda unit: shares[unit])
    return name if shares[name] >= MOSTLY * cycles else "latency"


def _roofline(layer: Layer, target: Target) -> int:
    return ceil(max(layer.macs / target.config.macs_per_cycle, layer.bytes_once / target.bytes_per_cycle))


def _utilisation(macs: int, cycles: int | None, config: AcceleratorConfig) -> float | None:
    return macs / config.macs_per_cycle / cycles if cycles else None


def table(report: Report) -> str:
    """Return a report as text: without times on the host, which are measured and differ from run to run."""
    width = max((len(layer.name) for layer in report.layers), default=5)
    lines = [
        f"{'layer':{width}}  {'operator':18} {'on':11} {'cycles':>10} {'ms':>8} {'MMAC':>9} {'used':>6} "
        f"{'KiB in':>8} {'KiB out':>8} {'uJ':>8} "
        f"{'load':>7} {'compute':>7} {'store':>7}  bound, or why on the host"
    ]
    for layer in report.layers:
        cycles = "-" if layer.cycles is None else f"{layer.cycles:,}"
        time = "-" if layer.cycles is None or layer.seconds is None else f"{layer.seconds * 1e3:,.3f}"
        used = "-" if layer.utilisation is None else f"{layer.utilisation:.1%}"
        energy = "-" if layer.energy_pj is None else f"{layer.energy_pj / 1e6:,.1f}"
        lines.append(
            f"{layer.name:{width}}  {layer.op:18} {layer.on:11} {cycles:>10} {time:>8} "
            f"{layer.macs / 1e6:9.2f} {used:>6} "
            f"{layer.bytes_read / 1024:8.1f} {layer.bytes_written / 1024:8.1f} {energy:>8} "
            f"{_busy_text(layer)}  "
            f"{layer.bound or layer.reason}".rstrip()
        )
    return "\n".join([*lines, summary(report)])


def _busy_text(layer: LayerReport) -> str:
    """Return the shares of a layer's cycles in which each unit worked; blanks where they are not known."""
    shares = (
        f"{layer.busy[unit.name.lower()] / layer.cycles:.0%}" if layer.busy and layer.cycles else ""
        for unit in Unit
    )
    return " ".join(f"{share:>7}" for share in shares)


def macs_text(macs: int, digits: int = 1) -> str:
    """Return a number of multiply-accumulates in millions; in thousands, or as it is, where it is smaller
    than the first digit that millions show.

    Args:
        digits: of the fraction.
    """
    if macs * 10**digits >= 1e6:
        return f"{macs / 1e6:,.{digits}f} M"
    return f"{macs / 1e3:.1f} k" if macs >= 1e3 else f"{macs} "


def summary(report: Report) -> str:
    """Return the totals of a report as one line."""
    who = report.device if report.runs == 1 else f"{report.device}, each of {report.runs} runs"
    if report.cycles is None or report.seconds is None or report.energy_pj is None:
        return f"{who}: {macs_text(report.macs)}MAC, untimed"
    return (
        f"{who}: {report.cycles:,} cycles, {report.seconds * 1e3:.2f} ms, "
        f"{macs_text(report.macs)}MAC, {report.utilisation or 0:.1%} of the multipliers, "
        f"{report.energy_pj / 1e9:.2f} mJ"
    )
