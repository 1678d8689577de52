"""`vdla check` says which programs are safe, and why others are not."""

import json
from pathlib import Path

import numpy as np
from click.testing import CliRunner

from vdla.cli import replay
from vdla.cli.check import command

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
    answers = [CliRunner().invoke(one, [str(tmp_path / "far.npz")]) for one in (command, replay.command)]
    assert [one.exit_code for one in answers] == [2, 2]
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
