"""The summary of a module and of its run: what matters first."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import msgspec

from vdla.hw.spec.showing import short
from vdla.hw.spec.target import ClockSource
from vdla.runtime.module.plan import LOST_DB, Fidelity, HostStep, OutputNoise, Plan
from vdla.runtime.module.reasons import kind_of
from vdla.runtime.session.report import LayerReport, Report, macs_text

MOST_COSTLY = 3
MOST_COMPONENTS = 5
SHOWN_UNCOUNTED = 3
KIB = 1024
HALF = "float16"
MOST_OUTPUTS = 4
MOST_LAYERS = 4


@dataclass(frozen=True)
class Cost:
    """An operator among the operators that cost most.

    Attributes:
        seconds: of the accelerator at the clock; None on the host and where no cycles are counted.
        share: of the accelerator's cycles; of all multiply-accumulates where no cycles are counted.
    """

    name: str
    op: str
    on: str
    cycles: int | None
    seconds: float | None
    macs: int
    share: float


@dataclass(frozen=True)
class Reason:
    """Operators that run on the host for like reasons.

    Attributes:
        why: what the reasons have in common.
        operators: how many there are of each kind.
    """

    why: str
    count: int
    operators: Mapping[str, int]


@dataclass(frozen=True)
class Summary:
    """What matters of a module and its run.

    Attributes:
        multipliers: of the accelerator.
        clock_hz: that turns cycles into time.
        clock_source: where it comes from.
        macs, host_macs: multiply-accumulates on the accelerator and on the host.
        cycles, seconds: of the accelerator; None where they are not known.
        utilisation, energy_pj: of the multipliers, and of all instructions; likewise.
        energy: `energy_pj` by component.
        bytes_moved, bytes_once: that all layers read and write in DRAM, and that they would if each moved its
            operands and its result once.
        roofline_cycles: lower bound of the layers; see `LayerReport`; None where cycles are not known.
        bytes_in, bytes_out: that cross to the accelerator and back in a run.
        host_operators: how many run on the host.
        host_seconds, copy_seconds: of these, and of what crosses, measured on this machine; None where
            nothing ran.
        costly: the operators that cost most, the first most of all.
        reasons: why operators run on the host, the most frequent first.
        hindrance: where most multiply-accumulates or all operators run on the host, why most of them do; else
            "".
        halves: the outputs that the network's file states as float16; its inputs are float32 then.
        uncounted: operators on the host of whose multiply-accumulates not all are in `host_macs`.
        runs: how many runs there were, one for each sample; all figures are of one run.
        fidelity: what quantisation cost on samples; None where the network was not quantised by the kit.
        clock_note: interval of an estimated clock, and the unit that limits it; "" where they are not known.
    """

    network: str
    target: str
    device: str
    multipliers: int
    clock_hz: float
    clock_source: ClockSource
    macs: int
    host_macs: int
    cycles: int | None
    seconds: float | None
    utilisation: float | None
    energy_pj: float | None
    energy: Mapping[str, float]
    bytes_moved: int
    bytes_once: int
    roofline_cycles: int | None
    launches: int
    instructions: int
    bytes_in: int
    bytes_out: int
    host_operators: int
    host_seconds: float | None
    copy_seconds: float | None
    costly: tuple[Cost, ...]
    reasons: tuple[Reason, ...]
    hindrance: str
    uncounted: tuple[str, ...]
    halves: tuple[str, ...]
    runs: int
    fidelity: Fidelity | None
    clock_note: str = ""

    @property
    def mac_share(self) -> float | None:
        """The share of the multiply-accumulates on the accelerator; None where there are none."""
        total = self.macs + self.host_macs
        return self.macs / total if total else None

    @property
    def roofline_share(self) -> float | None:
        """Share of the cycles that the roofline takes; None where either is not known."""
        return self.roofline_cycles / self.cycles if self.roofline_cycles and self.cycles else None

    def to_json(self) -> dict[str, object]:
        """Return it as plain JSON values."""
        plain = asdict(replace(self, fidelity=None))
        return {**plain, "fidelity": msgspec.to_builtins(self.fidelity), "mac_share": self.mac_share}

    def __str__(self) -> str:
        rows = [
            *_titled("runs", _runs(self)),
            *_titled("types", _halves(self.halves)),
            *_titled("MACs", (_macs(self), *_uncounted(self.uncounted))),
            ("accelerator", _accelerator(self)),
            *_titled("roofline", _roofline(self)),
            *_titled("DRAM", _dram(self)),
            *_titled("mostly host", [self.hindrance] if self.hindrance else []),
            *_titled("energy", _energy(self)),
            ("host", _operators(self.host_operators)),
            ("crossing", f"{_bytes(self.bytes_in)} to the accelerator, {_bytes(self.bytes_out)} back"),
            *_titled("cost most", _costs(self.costly)),
            *_titled("why on host", (_reason(reason) for reason in self.reasons)),
            *_titled("accuracy", accuracy_rows(self.fidelity) if self.launches else ()),
            *_titled("host time", _host_time(self)),
        ]
        width = max(len(title) for title, _ in rows)
        return "\n".join([f"{self.network} on {self.target}", *(f"  {a:{width}}  {b}" for a, b in rows)])


def summary_of(plan: Plan, report: Report, clock_hz: float | None = None, clock_note: str = "") -> Summary:
    """Return the summary of a module and of a report on it.

    Args:
        clock_hz: clock with which the report converts cycles to time; None: the clock of the plan's target.
        clock_note: what is known of the clock of the plan's target, if it is estimated.
    """
    is_target_clock = clock_hz in (None, plan.target.clock_hz)
    return Summary(
        plan.name,
        plan.target.name,
        report.device,
        plan.config.macs_per_cycle,
        clock_hz or plan.target.clock_hz,
        plan.target.clock_source if is_target_clock else ClockSource.GIVEN,
        report.macs,
        report.host_macs,
        report.cycles,
        report.seconds,
        report.utilisation,
        report.energy_pj,
        report.energy,
        report.bytes_moved,
        report.bytes_once,
        report.roofline_cycles,
        len(plan.launches),
        sum(stream.count for stream in plan.streams.values()),
        *_crossing_bytes(plan),
        len(plan.host_steps),
        report.host_seconds,
        report.copy_seconds,
        costly(report.layers),
        reasons(plan.host_steps),
        hindrance(plan, report),
        tuple(dict.fromkeys(text for step in plan.host_steps for text in step.uncounted)),
        tuple(name for name, value in plan.outputs.items() if value.dtype == HALF),
        report.runs,
        plan.fidelity,
        clock_note if is_target_clock else "",
    )


def _crossing_bytes(plan: Plan) -> tuple[int, int]:
    """Return the bytes that all launches take to the accelerator, and the bytes that they bring back."""
    packed = sum(crossing.layout.size for step in plan.launches for crossing in step.packs)
    unpacked = sum(crossing.layout.size for step in plan.launches for crossing in step.unpacks)
    return packed, unpacked


def costly(layers: Iterable[LayerReport], most: int = MOST_COSTLY) -> tuple[Cost, ...]:
    """Return the layers that take most cycles of the accelerator; where none are counted, the layers with
    most multiply-accumulates. Time of the host is not compared: it depends on the machine."""
    layers = list(layers)
    is_timed = any(layer.cycles is not None for layer in layers)
    costs = [(layer.cycles or 0) if is_timed else layer.macs for layer in layers]
    total, order = sum(costs), sorted(range(len(layers)), key=lambda place: -costs[place])
    return tuple(_cost(layers[place], costs[place] / total) for place in order[:most] if costs[place] > 0)


def _cost(layer: LayerReport, share: float) -> Cost:
    return Cost(layer.name, layer.op, layer.on, layer.cycles, layer.seconds, layer.macs, share)


def reasons(steps: Iterable[HostStep]) -> tuple[Reason, ...]:
    """Return why operators run on the host, like reasons together, the most frequent first."""
    kinds: dict[str, Counter[str]] = {}
    for step in steps:
        kinds.setdefault(kind_of(step.reason) or "no reason is known", Counter())[step.op] += 1
    groups = [Reason(why, ops.total(), dict(ops.most_common())) for why, ops in kinds.items()]
    return tuple(sorted(groups, key=lambda reason: -reason.count))


def hindrance(plan: Plan, report: Report) -> str:
    """Return why most of the work runs on the host, as the reason of the largest share; "" where most of it
    runs on the accelerator."""
    total, steps = report.macs + report.host_macs, plan.host_steps
    if not steps or (plan.launches and 2 * report.macs >= total):
        return ""
    shares, texts = Counter[str](), dict[str, str]()
    for step in steps:
        kind = kind_of(step.reason)
        shares[kind] += step.macs if total else 1
        texts.setdefault(kind, step.reason)
    ((kind, count),) = shares.most_common(1)
    share = f"{count / total:.1%} of the MACs" if total else _operators(count)
    return f"{share}: {texts[kind]}" if texts[kind] else ""


# As text


def _titled(title: str, texts: Iterable[str]) -> list[tuple[str, str]]:
    """Return rows of which the first has the title."""
    return [(title if not place else "", text) for place, text in enumerate(texts)]


def _operators(count: int) -> str:
    return f"{count} operator{'s' * (count != 1)}"


def _runs(summary: Summary) -> Iterable[str]:
    if summary.runs > 1:
        cycles = "" if summary.cycles is None else f", {summary.runs * summary.cycles:,} cycles in all"
        yield f"{summary.runs}, one for each sample{cycles}; all figures below are for one run"


def _macs(summary: Summary) -> str:
    if summary.mac_share is None:
        return "none"
    return (
        f"{macs_text(summary.macs + summary.host_macs).rstrip()}, "
        f"{summary.mac_share:.1%} of them on the accelerator"
    )


def _halves(outputs: Sequence[str]) -> Iterable[str]:
    """Yield what becomes of the types of a network of float16."""
    if outputs:
        names = short(", ".join(outputs))
        yield f"the file's {HALF} runs as float32 or int8: inputs are float32, {names} {HALF}"


def _uncounted(texts: Sequence[str]) -> Iterable[str]:
    """Yield what the count of multiply-accumulates leaves out, if it does."""
    if texts:
        more = len(texts) - SHOWN_UNCOUNTED
        yield f"on the host, {', '.join(texts[:SHOWN_UNCOUNTED])}{f' and {more} more' if more > 0 else ''}"


def _accelerator(summary: Summary) -> str:
    launches = f"{summary.launches} launch{'es' * (summary.launches != 1)}"
    if not summary.launches and not summary.host_operators:
        return "nothing runs, nor on the host: outputs are inputs, or constants (as a scale of 0 makes them)"
    if not summary.launches:
        return "nothing runs there"
    if summary.cycles is None or summary.seconds is None:
        return f"{launches}; the device {summary.device} counts no cycles, cycle does"
    return (
        f"{launches}, {summary.cycles:,} cycles = {_ms(summary.seconds)} at {summary.clock_hz / 1e6:g} MHz "
        f"({summary.clock_note or summary.clock_source.text}), "
        f"{summary.utilisation or 0:.1%} of {summary.multipliers:,} multipliers"
    )


def _moved(size: int) -> str:
    """Return bytes of DRAM traffic as text."""
    return f"{size / 1e6:,.1f} MB" if size >= 1e6 else f"{size / 1e3:,.1f} kB"


def _energy_text(picojoules: float) -> str:
    return f"{picojoules / 1e9:,.2f} mJ" if picojoules >= 1e9 else f"{picojoules / 1e6:,.2f} µJ"


def _roofline(summary: Summary) -> Iterable[str]:
    if summary.roofline_share is not None:
        yield (
            f"{summary.roofline_cycles:,} cycles, {summary.roofline_share:.1%} reached: each layer "
            "bound by its MACs, or by the bus that moves its tensors once"
        )


def _dram(summary: Summary) -> Iterable[str]:
    if summary.bytes_once:
        yield (
            f"{_moved(summary.bytes_moved)} read and written, "
            f"{summary.bytes_moved / summary.bytes_once:.2f} times the tensors of each layer"
        )


def _energy(summary: Summary) -> Iterable[str]:
    """Yield the energy with the shares of the components, the largest first."""
    if summary.energy_pj:
        order = sorted(summary.energy.items(), key=lambda item: -item[1])
        shares = [f"{name} {energy / summary.energy_pj:.1%}" for name, energy in order]
        shown, rest = shares[:MOST_COMPONENTS], len(shares) - MOST_COMPONENTS
        more = [f"{rest} more"] if rest > 0 else []
        yield f"{_energy_text(summary.energy_pj)}: {', '.join([*shown, *more])}"


def _host_time(summary: Summary) -> Iterable[str]:
    """Yield the measured time of the host, which is no figure of the accelerator."""
    if summary.host_seconds is not None and summary.copy_seconds is not None:
        yield (
            f"operators {_ms(summary.host_seconds)}, copies {_ms(summary.copy_seconds)}: "
            "measured on this machine, varies from run to run"
        )


def _costs(costs: Iterable[Cost]) -> Iterable[str]:
    costs = list(costs)
    width = max((len(cost.name) for cost in costs), default=0)
    for cost in costs:
        amount = f"{macs_text(cost.macs, 2)}MAC" if cost.seconds is None else _ms(cost.seconds)
        yield f"{cost.share:6.1%}  {amount:>10}  {cost.name:{width}}  {cost.op} on the {cost.on}"


def _reason(reason: Reason) -> str:
    kinds = ", ".join(op if count == 1 else f"{count} {op}" for op, count in reason.operators.items())
    return f"{reason.count:6}  {reason.why} ({kinds})"


def _bytes(size: int) -> str:
    return f"{size / KIB:,.1f} KiB" if size >= KIB else f"{size} bytes"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e3:.3f} ms"


def accuracy_rows(fidelity: Fidelity | None) -> Iterator[str]:
    """Yield the lines of a summary: the signal to noise of each output, and layers in float.

    Args:
        fidelity: None where the network was not quantised by the kit.
    """
    if fidelity is None:
        yield "not judged: the file is quantised already, so there is no float network to compare it with"
        return
    shown = sorted(fidelity.outputs, key=_severity)[:MOST_OUTPUTS]
    width = max((len(noise.output) for noise in shown), default=0)
    for noise in shown:
        yield f"{noise.output:{width}}  {_amount(noise):>8}  {_verdict(noise)}".rstrip()
    if len(fidelity.outputs) > len(shown):
        yield f"and {len(fidelity.outputs) - len(shown)} outputs with less noise"
    samples = f"{fidelity.samples} sample{'s' * (fidelity.samples != 1)}"
    yield f"signal to quantisation noise of the outputs, on {samples}"
    yield from _layers(fidelity)


def decibels(value: float | None) -> str:
    """Return a ratio of powers as text."""
    return "exact" if value is None else f"{value:.1f} dB"


def _amount(noise: OutputNoise) -> str:
    if noise.measure == "none":
        return "not judged: its shape depends on the data"
    if noise.measure == "power" or noise.decibels is None:
        return decibels(noise.decibels)
    return f"{1 - 10 ** (-noise.decibels / 10):.1%} of the elements equal"


def _severity(noise: OutputNoise) -> tuple[bool, float]:
    return not noise.is_lost, float("inf") if noise.decibels is None else noise.decibels


def _verdict(noise: OutputNoise) -> str:
    if noise.constant:
        return "LOST: the same on all samples, and not in float"
    return f"LOST: below {LOST_DB:g} dB" if noise.is_lost else ""


def _layers(fidelity: Fidelity) -> Iterator[str]:
    if fidelity.kept:
        yield (
            f"in float for {fidelity.target_db:g} dB, {decibels(fidelity.before_db)} without: "
            f"{_cut(fidelity.kept)}"
        )
    if fidelity.chosen:
        yield f"in float by choice: {_cut(fidelity.chosen)}"
    if fidelity.costly:
        yield (
            f"{_cut(fidelity.costly)} cost most; a higher --quality keeps such layers in float, --errors "
            "shows all"
        )


def _cut(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - MOST_LAYERS
    shown = ", ".join(names if more <= 1 else names[:MOST_LAYERS])
    return f"{shown} and {more} more" if more > 1 else shown
