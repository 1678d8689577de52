"""The timeline of a short run as a picture: what `vdla.sim.trace.perfetto` shows, for a page."""

from collections.abc import Iterable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from vdla.sim.plots.files import styled
from vdla.sim.timing.result import Timing
from vdla.sim.trace.layers import TracedLayer
from vdla.sim.trace.perfetto import TraceEvent, lanes, trace_events

COLOURS = {
    "busy": "#0072B2",
    "LOAD": "#56B4E9",
    "GATHER": "#56B4E9",
    "STORE": "#009E73",
    "GEMM": "#0072B2",
    "FINISH": "#000000",
    "waits: memory": "#D55E00",
    "waits for a": "#E69F00",
    "waits for room": "#CC79A7",
    "waits: instruction": "#DDDDDD",
    "fetch": "#999999",
    "load": "#56B4E9",
    "store": "#009E73",
    "compute": "#0072B2",
}
ALU_COLOUR = "#CC79A7"
DARK = ("#0072B2", "#000000", "#D55E00")
CHARACTER = 0.0062  # of the axes' width that a character of a label takes


def timeline(timing: Timing, layers: Sequence[TracedLayer] = ()) -> Figure:
    """Draw the lanes of a run with a log, and an arrow for each token.

    Args:
        layers: of the network that ran.
    """
    shown = lanes(layers)
    places = {lane.value: place for place, lane in enumerate(shown, 1)}
    with styled():
        figure = Figure(figsize=(12, 4.6), layout="constrained")
        axes = figure.subplots()
        events = [{**event, "tid": places.get(event["tid"], 0)} for event in trace_events(timing, layers)]
        _draw_slices(axes, [event for event in events if event["ph"] == "X"], timing.cycles)
        _draw_arrows(axes, events)
        axes.set_yticks(list(places.values()), [lane.name.lower().replace("_", " ") for lane in shown])
        axes.set(xlim=(0, timing.cycles), ylim=(len(shown) + 0.6, 0.4), xlabel="cycle")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    return figure


def _draw_slices(axes: Axes, slices: Iterable[TraceEvent], cycles: int) -> None:
    for event in slices:
        axes.broken_barh(
            [(event["ts"], event["dur"])],
            (event["tid"] - 0.36, 0.72),
            facecolor=_colour(event["name"]),
            edgecolor="white",
            linewidth=0.4,
        )
        if len(event["name"]) * CHARACTER < event["dur"] / cycles:
            axes.text(
                event["ts"] + event["dur"] / 2,
                event["tid"],
                event["name"],
                ha="center",
                va="center",
                fontsize=6.5,
                color="white" if _colour(event["name"]) in DARK else "black",
            )


def _colour(name: str) -> str:
    return next((colour for start, colour in COLOURS.items() if name.startswith(start)), ALU_COLOUR)


def _draw_arrows(axes: Axes, events: Iterable[TraceEvent]) -> None:
    starts = {event["id"]: event for event in events if event["ph"] == "s"}
    for end in (event for event in events if event["ph"] == "f"):
        start = starts[end["id"]]
        axes.annotate(
            "",
            (end["ts"], end["tid"]),
            (start["ts"], start["tid"]),
            arrowprops={"arrowstyle": "->", "linewidth": 0.7, "color": "#444444"},
        )
