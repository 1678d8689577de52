"""The page that steps through a recorded run.

Its data are columns of numbers. A file of columns is the length of a header as uint32, the header as JSON,
and the columns, each at a multiple of 8 bytes; all numbers are little-endian. The header says of each column
its type, its place and its length. The columns hold what the debugger answers from: the cycles of all events,
the causes of the events, the states of the units, and what the instructions touch. The page looks states and
chains up in them, as the debugger does.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vdla.explore.debug.causes import causes_of
from vdla.explore.debug.contents import Contents
from vdla.explore.debug.errors import errors_of
from vdla.explore.debug.events import WORDS, EventColumns, EventKind
from vdla.explore.debug.execution import written_by
from vdla.explore.debug.levels import STATES
from vdla.explore.debug.reasons import BLAMED, TEXTS, Reason
from vdla.explore.debug.recording import NONE, STEP_COUNTERS, Recording
from vdla.explore.report.page import write_column_page
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.registers import COUNTED_STATES, UnitState, state_counter
from vdla.hw.spec.timing import Client
from vdla.hw.spec.units import TOKEN_EDGES, Unit
from vdla.sim.records import IntArray
from vdla.sim.timing.result import BEAT_COUNTERS
from vdla.sim.trace.events import wait_text
from vdla.sim.verify.columns import DRAM

SCRIPTS = (
    "spans.js",
    "columns.js",
    "recorded.js",
    "memories.js",
    "counters.js",
    "breakpoints.js",
    "lanes.js",
    "pads.js",
    "panel.js",
    "debug.js",
)
ALIGNMENT = 8
MOST_VALUES = 1 << 21
"""Values in memories that a page holds; it holds none if there are more."""


def write_debug_page(output: Path, recording: Recording) -> Path:
    """Write the page that steps through a run.

    Returns:
        The file.

    Raises:
        OutputError: the page cannot be written.
    """
    title = f"Debugger: {recording.name}"
    return write_column_page(output, title, "debug.html", SCRIPTS, page_content(recording))


def page_content(recording: Recording) -> bytes:
    """Return everything that the page shows of a run, as a file of columns."""
    contents = Contents(recording)
    written = written_by(contents, MOST_VALUES)
    meta = _meta(recording) | _memory_meta(contents) | {"element_lanes": list(written.lanes.items())}
    columns = _columns(recording) | _memory_columns(contents)
    columns |= {"touch value": written.first.astype(np.int32), "values": written.values.astype(np.int32)}
    return column_file(meta, columns)


def column_file(meta: Mapping[str, Any], columns: Mapping[str, np.ndarray]) -> bytes:
    """Return values and columns as a file of columns.

    Args:
        meta: JSON values.
        columns: one-dimensional arrays of integers of at most 32 bits, or of float64.
    """
    places, body = {}, bytearray()
    for name, column in columns.items():
        places[name] = [column.dtype.name, len(body), len(column)]
        body += column.astype(column.dtype.newbyteorder("<")).tobytes()
        body += bytes(-len(body) % ALIGNMENT)
    header = json.dumps({"meta": dict(meta), "columns": places}, separators=(",", ":")).encode()
    header += b" " * (-(len(header) + 4) % ALIGNMENT)
    return len(header).to_bytes(4, "little") + header + bytes(body)


def _meta(recording: Recording) -> dict[str, Any]:
    config = recording.program.config
    return {
        "name": recording.name,
        "configuration": config.name,
        "memory": _memory_text(recording.memory),
        "cycles": recording.timing.cycles,
        "fault": (recording.timing.fault.name or "").lower().replace("_", " "),
        "instructions": len(recording),
        "reached": recording.program.dispatched,
        "depths": list(recording.depths),
        "token_depth": config.token_depth,
        "units": [unit.name.lower() for unit in Unit],
        "states": [state.name.lower() for state in STATES],
        "texts": [_state_texts(recording, unit) for unit in Unit],
        "edges": [
            {"name": str(edge), "producer": int(edge.producer), "consumer": int(edge.consumer)}
            for edge in TOKEN_EDGES
        ],
        "clients": [client.name.lower() for client in Client],
        "kinds": {kind.name: int(kind) for kind in EventKind},
        "bases": list(EventColumns(recording).bases),
        "words": [WORDS[kind] for kind in EventKind],
        "reasons": [TEXTS[reason] for reason in Reason],
        "place_reason": int(Reason.PLACE),
        "blamed": [int(reason) for reason in BLAMED],
        "layers": [[layer.name, layer.op, layer.begin, layer.end] for layer in recording.layers],
    }


def _memory_text(memory: MemoryParameters) -> str:
    cycles = memory.cycles_per_beat
    return f"latency {memory.latency}, {cycles} cycle{'s' * (cycles != 1)} per beat"


def _memory_meta(contents: Contents) -> dict[str, Any]:
    """Return what the page knows of memories, counters and errors."""
    config, errors = contents.recording.program.config, errors_of(contents)
    pads = [[int(memory), memory.name, config.depth(memory)] for memory in contents.scratchpads]
    return {
        "scratchpads": pads,
        "dram": DRAM,
        "areas": [[area.name, area.begin, area.end] for area in contents.recording.image.areas],
        "labels": list(dict.fromkeys(contents.labels)),
        "counters": [
            [state_counter(unit, state), int(unit), STATES.index(state)]
            for unit in Unit
            for state in COUNTED_STATES
        ],
        "beat_counters": list(BEAT_COUNTERS),
        "cycles_per_beat": contents.recording.memory.cycles_per_beat,
        "step_counters": list(STEP_COUNTERS),
        "errors": [
            [each.kind.value, each.text, each.instruction, each.cycle, [list(other) for other in each.others]]
            for each in errors
        ],
    }


def _memory_columns(contents: Contents) -> dict[str, np.ndarray]:
    """Return what instructions touch, from whom they have what they read, and the slots that they issue."""
    touches, flow = contents.touches, contents.flow
    places = {label: place for place, label in enumerate(dict.fromkeys(contents.labels))}
    return {
        "touch": _steps(touches.instruction),
        "touch memory": touches.memory.astype(np.uint8),
        "touch kind": (touches.reads + 2 * touches.writes).astype(np.uint8),
        "touch begin": touches.begin.astype(np.float64),
        "touch width": touches.width.astype(np.int32),
        "touch stride": touches.stride.astype(np.float64),
        "touch count": touches.count.astype(np.int32),
        "touch area": contents.areas.astype(np.int32),
        "flow": _steps(flow.reader),
        "flow writer": (flow.reader - flow.writer).astype(np.int32),
        "flow memory": flow.memory.astype(np.uint8),
        "label": np.array([places[label] for label in contents.labels], np.int32),
        "slots": contents.recording.timed["slots"].astype(np.int32),
        "lent": contents.recording.lent.astype(np.int32),
    } | _step_columns(contents.recording)


def _step_columns(recording: Recording) -> dict[str, np.ndarray]:
    """Return the steps of instructions, the slots that issue them, and the cycles whose slots are lent."""
    stepping, lent = recording.stepping, recording.lent_runs
    return {
        "counter": stepping.counter.astype(np.uint8),
        "steps": stepping.steps.astype(np.int32),
        "row steps": stepping.rows.steps.astype(np.int32),
        "row first": stepping.rows.first.astype(np.uint16),
        "row each": stepping.rows.each.astype(np.uint16),
        "lent first": _steps(lent["first"]),
        "lent last": _steps(lent["last"]),
    }


def _state_texts(recording: Recording, unit: Unit) -> dict[int, str]:
    """Return what the unit does in each state that occurs."""
    occurring = set(recording.states[unit]["state"].tolist()) | {STATES.index(UnitState.IDLE)}
    texts = {state: wait_text(unit, STATES[state]) for state in sorted(occurring)}
    return texts | {STATES.index(UnitState.IDLE): "idle"}


def _columns(recording: Recording) -> dict[str, np.ndarray]:
    program, events = recording.program, EventColumns(recording)
    bits, bursts = 1 << np.arange(len(TOKEN_EDGES)), recording.bursts
    causes, number = causes_of(events), np.arange(len(events.cycles))
    columns = {
        "unit": program.unit,
        "track": _tracks(recording),
        "pops": (program.pops @ bits).astype(np.uint8),
        "pushes": (program.pushes @ bits).astype(np.uint8),
        "layer": recording.layer_numbers.astype(np.int16),
        "text": np.frombuffer("\n".join(recording.texts).encode(), np.uint8),
        "cycles": _steps(events.cycles),
        "cause": (number - causes.cause).astype(np.int32),
        "reason": causes.reason,
        "edge": causes.edge,
        "client": bursts["client"].astype(np.uint8),
        "owner": _steps(bursts["instruction"]),
        "beats": bursts["beats"].astype(np.uint16),
    }
    columns |= _beat_columns(recording)
    for unit, spans in zip(Unit, recording.states, strict=True):
        columns[f"state {unit.name.lower()}"] = spans["state"].astype(np.uint8)
        columns[f"length {unit.name.lower()}"] = (spans["end"] - spans["begin"]).astype(np.int32)
    return columns


def _beat_columns(recording: Recording) -> dict[str, np.ndarray]:
    """Return the runs of beats, counter by counter, with the cycles as steps within a counter."""
    runs = np.sort(recording.beat_runs, order=["counter", "first"])
    first, last = (np.diff(runs[name], prepend=0) for name in ("first", "last"))
    begins = np.flatnonzero(np.diff(runs["counter"], prepend=-1))
    first[begins], last[begins] = runs["first"][begins], runs["last"][begins]
    return {
        "beat counter": runs["counter"].astype(np.uint8),
        "beat first": first.astype(np.int32),
        "beat last": last.astype(np.int32),
    }


def _steps(values: IntArray) -> np.ndarray:
    """Return int32[n]: the differences of neighbours, which compress better; the sums are the values."""
    return np.diff(values, prepend=0).astype(np.int32)


def _tracks(recording: Recording) -> np.ndarray:
    """Return int8[n]: the place of each instruction's track in `Recording.tracks`; NONE where dispatch never
    reaches it."""
    numbers = np.full(len(recording), NONE, np.int8)
    for number, track in enumerate(recording.tracks):
        numbers[track.instructions] = number
    return numbers
