"""`vdla check` says which programs are safe, and why others are not."""

import json
from pathlib import Path

import numpy as np
from click.testing import CliRunner

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


def test_a_deadlock_is_explained(tmp_path):
    with np.load(GOOD) as file:
        arrays = {name: file[name].copy() for name in file.files}
    arrays["instructions"][np.flatnonzero(arrays["instructions"][:, 0] & 0b1100000)[0], 0] &= 0b10011111
    np.savez(tmp_path / "stuck.npz", **arrays)
    outcome = invoke(tmp_path / "stuck.npz")
    assert outcome.exit_code == 1
    assert "deadlock: no unit can go on" in outcome.stdout
