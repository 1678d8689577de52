"""`vdla check` says which programs are safe, and why others are not."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from vdla.cli.check import command
from vdla.cli.replay import command as replay
from vdla.cli.trace import command as trace
from vdla.hw.spec import codec, isa
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.vectors import load_vector, stream_address

VECTORS = Path(__file__).parents[1] / "vectors" / "vta"
GOOD, FUZZ = VECTORS / "gemm_vt2_d.npz", VECTORS / "fuzz3_d.npz"


def invoke(*arguments):
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def test_a_safe_program_passes():
    outcome = invoke(GOOD)
    assert (outcome.exit_code, outcome.stdout) == (0, "gemm_vt2_d: safe\n")


def test_what_is_wrong_is_listed():
    outcome = invoke("--json", GOOD, FUZZ)
    rows = json.loads(outcome.stdout)
    assert outcome.exit_code == 1
    assert rows[0] == {"name": "gemm_vt2_d", "problems": []}
    assert rows[1]["problems"][0].endswith("reads WGT element 24, which nothing has written")


def test_a_program_without_data_is_checked(tmp_path):
    with np.load(GOOD) as file:
        arrays = {name: file[name] for name in file.files}
    np.savez(tmp_path / "bare.npz", **arrays | {"segment_addresses": np.zeros(0, np.uint64)})
    outcome = invoke(tmp_path / "bare.npz")
    assert outcome.exit_code == 1
    assert "which does not exist" in outcome.stdout


def test_a_segment_near_4_gib_is_refused_by_check_and_replay_alike(tmp_path):
    with np.load(GOOD) as file:
        arrays = {name: file[name] for name in file.files}
    addresses = arrays["segment_addresses"].copy()
    addresses[-1] = (1 << 32) - (1 << 20)
    np.savez(tmp_path / "far.npz", **arrays | {"segment_addresses": addresses})
    answers = [
        CliRunner().invoke(subcommand, [str(tmp_path / "far.npz")]) for subcommand in (command, replay)
    ]
    assert [answer.exit_code for answer in answers] == [2, 2]
    assert answers[0].stderr == answers[1].stderr
    assert "and the limit is 1073741824" in answers[0].stderr


def test_a_deadlock_is_explained(tmp_path):
    with np.load(GOOD) as file:
        arrays = {name: file[name].copy() for name in file.files}
    arrays["instructions"][np.flatnonzero(arrays["instructions"][:, 0] & 0b1100000)[0], 0] &= 0b10011111
    np.savez(tmp_path / "stuck.npz", **arrays)
    outcome = invoke(tmp_path / "stuck.npz")
    assert outcome.exit_code == 1
    assert "deadlock: no unit can go on" in outcome.stdout


@pytest.fixture
def self_storing(tmp_path) -> Path:
    """Return a vector whose first STORE writes the stream where `replay` puts it."""
    vector, path = load_vector(GOOD), tmp_path / "self.npz"
    items = [codec.decode(word, vector.config) for word in codec.words(vector.stream.tobytes(), 16)]
    index = next(index for index, item in enumerate(items) if isinstance(item, isa.Store) and item.x_size)
    base = stream_address(vector) // vector.config.element_bytes(MemoryType.OUT)
    items[index] = dataclasses.replace(items[index], dram_base=base)
    with np.load(GOOD) as file:
        arrays = {name: file[name] for name in file.files}
    arrays["instructions"] = np.frombuffer(codec.to_bytes(items, vector.config), np.uint8).reshape(-1, 16)
    np.savez(path, **arrays)
    return path


def test_a_program_that_stores_into_itself_is_refused_where_replay_would_run_it(self_storing, tmp_path):
    (problem,) = json.loads(invoke("--json", self_storing).stdout)[0]["problems"]
    assert "overwrites instruction 0 of the stream that is running" in problem
    devices = ["--device", "functional", "--device", "cycle"]
    replayed = CliRunner().invoke(replay, ["--json", str(self_storing), *devices])
    assert replayed.exit_code == 1
    assert [row["error"] for row in json.loads(replayed.stdout)] == [f"OverwriteError: {problem}"] * 2
    traced = CliRunner().invoke(trace, [str(self_storing), "-o", str(tmp_path / "trace.json")])
    assert (traced.exit_code, traced.stderr) == (2, f"error: {problem}\n")
    assert not (tmp_path / "trace.json").exists()


def test_a_program_of_finish_alone_is_safe_without_data(tmp_path):
    vector = load_vector(GOOD)
    with np.load(GOOD) as file:
        arrays = {"meta": file["meta"], "segment_addresses": np.zeros(0, np.uint64)}
    stream = codec.to_bytes([isa.Finish()], vector.config)
    np.savez(tmp_path / "none.npz", **arrays, instructions=np.frombuffer(stream, np.uint8).reshape(-1, 16))
    outcome = invoke(tmp_path / "none.npz")
    assert (outcome.exit_code, outcome.stdout) == (0, "none: safe\n")
