"""A run as a timeline in the trace-event format, which ui.perfetto.dev and chrome://tracing open.

One microsecond of the trace is one cycle. A unit has several instructions in progress at once. So that slices
do not overlap, its lane shows an instruction from the cycle in which the preceding instruction retired.
`args` have the true start. The compute unit's LOADs run beside its steps, so they have a separate lane.
Another lane shows what the unit's cycles count as. The memory lane is the data path: each burst from its
first to its last beat. Counters show the tokens that each edge holds. The run of a network has a lane of its
layers, and the events of instructions say which layer they belong to.

Source: "Trace Event Format" of the Chromium project.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from enum import IntEnum
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from vdla.hw.spec import isa
from vdla.hw.spec.assembly import format_instruction
from vdla.hw.spec.registers import UnitState
from vdla.hw.spec.sdram import AnyMemory
from vdla.hw.spec.timing import Client
from vdla.hw.spec.units import TOKEN_EDGES, Unit
from vdla.hw.spec.writing import whole_file
from vdla.sim.decoded import DecodedStream
from vdla.sim.timing.result import Log, Timing
from vdla.sim.trace.events import STATES, executed, held, label, tokens, wait_text, waits, work_begins
from vdla.sim.trace.layers import TracedLayer, layer_names

PROCESS = 10  # no lane's number: the viewer calls a thread with the number of its process the main thread
ENCODER = json.JSONEncoder(separators=(",", ":"), check_circular=False)


TraceEvent: TypeAlias = dict[str, Any]
"""A JSON object; the format says which keys each kind of event ("ph") has."""


class Lane(IntEnum):
    """Threads of the trace, from top to bottom."""

    LAYERS = 11  # beyond the number of the process
    FETCH = 1
    LOAD = 2
    LOAD_STATE = 3
    COMPUTE = 4
    COMPUTE_STATE = 5
    COMPUTE_LOADS = 6
    STORE = 7
    STORE_STATE = 8
    MEMORY = 9


UNIT_LANES = {Unit.LOAD: Lane.LOAD, Unit.COMPUTE: Lane.COMPUTE, Unit.STORE: Lane.STORE}


def lane_of(program: DecodedStream, index: int) -> Lane:
    """Return the lane that shows an instruction."""
    unit = Unit(int(program.unit[index]))
    loads = program.opcode[index] == isa.Opcode.LOAD
    return Lane.COMPUTE_LOADS if unit is Unit.COMPUTE and loads else UNIT_LANES[unit]


def write_perfetto(
    timing: Timing,
    path: str | Path,
    memory: AnyMemory | None = None,
    layers: Sequence[TracedLayer] = (),
) -> None:
    """Write the timeline of a run with a log; the file appears when it is whole.

    Args:
        memory: what the run was simulated with, to be told in the file.
        layers: of the network that ran.

    Raises:
        ValueError: the run was simulated without a log.
        OutputError: the file cannot be written.
    """
    with whole_file(path) as file:
        file.write(
            '{"displayTimeUnit": "ns", "otherData": '
            + json.dumps(_about(timing, memory))
            + ', "traceEvents": [\n'
        )
        for number, event in enumerate(trace_events(timing, layers)):
            file.write((",\n" if number else "") + ENCODER.encode(event))
        file.write("\n]}\n")


def _about(timing: Timing, memory: AnyMemory | None) -> dict[str, object]:
    config = timing.program.config
    about: dict[str, object] = {
        "configuration": config.name,
        "digest": config.digest,
        "cycles": timing.cycles,
        "unit of time": "1 us is 1 cycle",
    }
    return about | ({f"memory {name}": value for name, value in asdict(memory).items()} if memory else {})


def lanes(layers: Sequence[TracedLayer]) -> tuple[Lane, ...]:
    """Return the lanes of a run, from top to bottom."""
    return tuple(lane for lane in Lane if layers or lane is not Lane.LAYERS)


def trace_events(timing: Timing, layers: Sequence[TracedLayer] = ()) -> Iterator[TraceEvent]:
    """Yield the events of the timeline.

    Args:
        layers: of the network that ran.

    Raises:
        ValueError: the run was simulated without a log.
    """
    log, names = timing.logged, layer_names(layers, len(timing.program))
    yield from _names(lanes(layers))
    yield from _layers(layers)
    yield from _instructions(timing, names)
    yield from _states(log, names)
    yield from _fetches(log)
    yield from _bursts(log, names)
    yield from _tokens(timing)
    yield from _held(timing)


def _names(shown: Sequence[Lane]) -> Iterator[TraceEvent]:
    yield {
        "ph": "M",
        "pid": PROCESS,
        "tid": 0,
        "ts": 0,
        "name": "process_name",
        "args": {"name": "accelerator"},
    }
    for place, lane in enumerate(shown, 1):
        shared: TraceEvent = {"ph": "M", "pid": PROCESS, "tid": lane.value, "ts": 0}
        yield shared | {"name": "thread_name", "args": {"name": lane.name.lower().replace("_", " ")}}
        yield shared | {"name": "thread_sort_index", "args": {"sort_index": place}}


def _slice(lane: Lane, name: str, begin: int, end: int, **args: object) -> TraceEvent:
    return {
        "ph": "X",
        "pid": PROCESS,
        "tid": lane.value,
        "name": name,
        "ts": begin,
        "dur": end - begin,
        "args": args,
    }


def _layers(layers: Sequence[TracedLayer]) -> Iterator[TraceEvent]:
    for layer in layers:
        if layer.begin < layer.end:
            count = len(layer.instructions)
            yield _slice(
                Lane.LAYERS, layer.name, layer.begin, layer.end, operator=layer.op, instructions=count
            )


def _of_layer(names: Sequence[str], instruction: int) -> dict[str, str]:
    """Return what the event of an instruction says of its layer; nothing where there is none."""
    name = names[instruction] if instruction >= 0 else ""
    return {"layer": name} if name else {}


def _instructions(timing: Timing, names: Sequence[str]) -> Iterator[TraceEvent]:
    begins, waited = work_begins(timing), waits(timing)
    for unit in Unit:
        for index in executed(timing, unit).tolist():
            text = format_instruction(timing.program.instruction(index))
            times = {name: int(getattr(timing, name)[index]) for name in ("dispatched", "started", "retired")}
            yield _slice(
                lane_of(timing.program, index),
                label(timing.program, index),
                int(begins[index]),
                times["retired"] + 1,
                instruction=index,
                text=text,
                **times,
                waits=dict(waited.get(index, {})),
                **_of_layer(names, index),
            )


def _states(log: Log, names: Sequence[str]) -> Iterator[TraceEvent]:
    for unit, state, instruction, begin, end in log.spans.tolist():
        if STATES[state] is not UnitState.IDLE:
            lane = Lane(UNIT_LANES[Unit(unit)] + 1)
            args = {"next_instruction": instruction, **_of_layer(names, instruction)}
            yield _slice(lane, wait_text(Unit(unit), STATES[state]), begin, end, **args)


def _fetches(log: Log) -> Iterator[TraceEvent]:
    fetches = log.bursts[log.bursts["client"] == Client.FETCH]
    begins = fetches["taken"].copy()
    begins[1:] = np.maximum(begins[1:], fetches["last"][:-1] + 1)
    for begin, last, beats, taken in zip(
        begins.tolist(),
        fetches["last"].tolist(),
        fetches["beats"].tolist(),
        fetches["taken"].tolist(),
        strict=True,
    ):
        yield _slice(Lane.FETCH, f"fetch {beats} beats", begin, last + 1, asked=taken)


def _bursts(log: Log, names: Sequence[str]) -> Iterator[TraceEvent]:
    for client, instruction, beats, taken, accepted, first, last in log.bursts.tolist():
        name = f"{Client(client).name.lower()} {beats} beats"
        args = {"instruction": instruction, "asked": taken, "accepted": accepted}
        yield _slice(Lane.MEMORY, name, first, last + 1, **args, **_of_layer(names, instruction))


def _tokens(timing: Timing) -> Iterator[TraceEvent]:
    """Yield an arrow for each token: from the end of the slice that pushed it to the begin of the slice that
    popped it."""
    begins = work_begins(timing)
    for number, token in enumerate(tokens(timing)):
        shared: TraceEvent = {"pid": PROCESS, "cat": "token", "name": str(token.edge), "id": number}
        yield shared | {
            "ph": "s",
            "tid": lane_of(timing.program, token.producer).value,
            "ts": int(timing.retired[token.producer]),
        }
        yield shared | {
            "ph": "f",
            "bp": "e",
            "tid": lane_of(timing.program, token.consumer).value,
            "ts": int(begins[token.consumer]),
        }


def _held(timing: Timing) -> Iterator[TraceEvent]:
    """Yield a counter for each edge that is used: the tokens it holds."""
    for number, edge in enumerate(TOKEN_EDGES):
        cycles, counts = held(timing, number)
        shared: TraceEvent = {"ph": "C", "pid": PROCESS, "tid": 0, "name": f"tokens {edge}"}
        for cycle, count in (
            [(0, 0), *zip(cycles.tolist(), counts.tolist(), strict=True)] if len(cycles) else []
        ):
            yield shared | {"ts": cycle, "args": {"held": count}}
