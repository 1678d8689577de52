"""The data of the debugger's page: its decoded columns equal the columns of the run."""

import base64
import gzip
import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.explore.debug.imaged import contents
from tests.explore.debug.planted import planted
from tests.explore.debug.programs import ENDING, STOPPED, recording
from vdla.explore.debug.chains import Chains
from vdla.explore.debug.contents import Contents
from vdla.explore.debug.errors import errors_of
from vdla.explore.debug.events import EventKind
from vdla.explore.debug.levels import STATES
from vdla.explore.debug.recording import Recording
from vdla.explore.report.debug_page import column_file, page_content, write_debug_page
from vdla.hw.spec.footprint import FOOTPRINTS, stepping_forms
from vdla.hw.spec.units import TOKEN_EDGES, Unit
from vdla.sim.trace.layers import TracedLayer

SHOWN = ["conv3x3", "fuzz", "random 3", *STOPPED]


def decoded_file(content: bytes) -> tuple[dict, dict[str, np.ndarray]]:
    """Return the values and the columns of a file of columns."""
    size = int.from_bytes(content[:4], "little")
    header, body = json.loads(content[4 : 4 + size]), content[4 + size :]
    assert (4 + size) % 8 == 0
    columns = {}
    for name, (kind, place, count) in header["columns"].items():
        assert place % 8 == 0
        columns[name] = np.frombuffer(body, np.dtype(kind).newbyteorder("<"), count, place)
    return header["meta"], columns


def data_of(page: Path) -> bytes:
    """Return the data that a page holds."""
    text = re.search(r'<script type="text/plain" id="data">([^<]*)</script>', page.read_text())[1]
    return gzip.decompress(base64.b64decode(text))


def layered() -> Recording:
    """Return a run of two layers."""
    plain = recording("conv3x3")
    layers = (
        TracedLayer("first", "Conv", 0, 5000, np.arange(0, 100)),
        TracedLayer("<second>", "Add", 5000, plain.timing.cycles, np.arange(100, len(plain))),
    )
    return Recording("net", plain.timing, plain.memory, layers)


@pytest.mark.parametrize("name", SHOWN)
def test_the_page_holds_the_events_the_causes_and_the_states_of_the_run(name, tmp_path):
    run = recording(name)
    meta, columns = decoded_file(data_of(write_debug_page(tmp_path / "x.html", run)))
    chains = Chains(run)
    np.testing.assert_array_equal(np.cumsum(columns["cycles"]), chains.events.cycles)
    number = np.arange(len(chains.events.cycles))
    np.testing.assert_array_equal(number - columns["cause"], chains.causes.cause)
    np.testing.assert_array_equal(columns["reason"], chains.causes.reason)
    np.testing.assert_array_equal(columns["edge"], chains.causes.edge)
    for unit, spans in zip(Unit, run.states, strict=True):
        states = columns[f"state {unit.name.lower()}"]
        assert [meta["states"][state] for state in states] == [
            STATES[state].name.lower() for state in spans["state"]
        ]
        ends = 1 + np.cumsum(columns[f"length {unit.name.lower()}"])
        np.testing.assert_array_equal(ends, spans["end"])
    bursts = run.bursts
    np.testing.assert_array_equal(np.cumsum(columns["owner"]), bursts["instruction"])
    for column, field in (("client", "client"), ("beats", "beats")):
        np.testing.assert_array_equal(columns[column], bursts[field])


@pytest.mark.parametrize("name", SHOWN)
def test_the_page_holds_the_instructions(name):
    run = recording(name)
    meta, columns = decoded_file(page_content(run))
    program = run.program
    assert bytes(columns["text"]).decode().split("\n") == run.texts
    np.testing.assert_array_equal(columns["unit"], program.unit)
    for flags, expected in ((columns["pops"], program.pops), (columns["pushes"], program.pushes)):
        np.testing.assert_array_equal(flags[:, None] >> np.arange(len(TOKEN_EDGES)) & 1, expected)
    for number, track in enumerate(run.tracks):
        np.testing.assert_array_equal(np.flatnonzero(columns["track"] == number), track.instructions)
    assert (meta["instructions"], meta["reached"]) == (len(program), program.dispatched)
    assert (meta["cycles"], meta["token_depth"]) == (run.timing.cycles, program.config.token_depth)
    assert meta["bases"] == list(Chains(run).events.bases)
    assert meta["kinds"] == {kind.name: kind.value for kind in EventKind}


def test_the_page_holds_touches_flow_and_labels():
    memories = contents("conv3x3_d")
    meta, columns = decoded_file(page_content(memories.recording))
    np.testing.assert_array_equal(np.cumsum(columns["touch"]), memories.touches.instruction)
    for name in ("memory", "begin", "width", "stride", "count"):
        np.testing.assert_array_equal(columns[f"touch {name}"], getattr(memories.touches, name))
    np.testing.assert_array_equal(columns["touch kind"], memories.touches.reads + 2 * memories.touches.writes)
    np.testing.assert_array_equal(columns["touch area"], memories.areas)
    np.testing.assert_array_equal(np.cumsum(columns["flow"]), memories.flow.reader)
    np.testing.assert_array_equal(memories.flow.reader - columns["flow writer"], memories.flow.writer)
    np.testing.assert_array_equal(columns["flow memory"], memories.flow.memory)
    assert [meta["labels"][label] for label in columns["label"]] == memories.labels
    np.testing.assert_array_equal(columns["lent"], memories.recording.lent)
    program = memories.recording.program
    for form in stepping_forms():
        chosen = program.opcode == form.opcode
        np.testing.assert_array_equal(columns["steps"][chosen], program.steps(form))
        counters = {meta["step_counters"][number] for number in columns["counter"][chosen]}
        assert counters <= {FOOTPRINTS[form].counter}
    assert meta["errors"] == []


def test_the_page_holds_the_errors():
    run = planted("A wrong address").recording
    meta, _ = decoded_file(page_content(run))
    (error,) = errors_of(Contents(run))
    ((kind, text, instruction, cycle, others),) = meta["errors"]
    assert (kind, text, instruction, cycle) == (error.kind, error.text, error.instruction, error.cycle)
    assert [tuple(other) for other in others] == list(error.others)


def test_the_page_holds_the_layers():
    meta, columns = decoded_file(page_content(layered()))
    assert meta["layers"] == [["first", "Conv", 0, 5000], ["<second>", "Add", 5000, 14920]]
    assert columns["layer"].tolist() == [0] * 100 + [1] * 224
    assert set(decoded_file(page_content(recording("conv3x3")))[1]["layer"].tolist()) == {-1}


def test_columns_that_differ_are_noticed():
    """The comparisons above would see one cycle that is wrong."""
    _, columns = decoded_file(
        column_file({"a": 1}, {"x": np.array([3, 4], np.int32), "y": np.ones(3, np.uint8)})
    )
    assert {name: column.tolist() for name, column in columns.items()} == {"x": [3, 4], "y": [1, 1, 1]}
    wrong = np.cumsum(decoded_file(page_content(recording("fuzz")))[1]["cycles"])
    wrong[7] += 1
    assert not np.array_equal(wrong, Chains(recording("fuzz")).events.cycles)


@pytest.mark.parametrize("name", ENDING)
def test_the_same_run_gives_the_same_bytes(name):
    assert page_content(recording(name)) == page_content(recording(name))


def test_the_page_loads_nothing_and_has_no_other_library(tmp_path):
    text = write_debug_page(tmp_path / "x.html", layered()).read_text()
    assert "default-src 'none'" in text
    assert "vegaEmbed = " not in text
    assert len(text) < 150_000
    assert "<title>Debugger: net</title>" in text
