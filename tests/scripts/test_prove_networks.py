"""Proofs of networks: rows, summary, journal."""

import importlib
import json
import os
from dataclasses import asdict, replace

import pytest

from tests.cli.models import model


@pytest.fixture(scope="module")
def script():
    return importlib.import_module("prove_networks")


@pytest.fixture
def row(script):
    return script.Row("net", "tiny", True, 2.0**-70, "2^-70", ("A",), 3, 100, 1.0, 2.0, 300, "")


def test_a_row_is_right_if_it_is_proved_with_a_low_bound(row):
    assert row.is_right
    assert not replace(row, proved=False).is_right
    assert not replace(row, failure_probability=2.0**-60).is_right


def test_the_summary_names_the_worst_bound_and_all_axioms(script, row):
    other = replace(
        row, network="other", failure_probability=2.0**-65, bound="2^-65", axioms=("B",), mebibytes=400
    )
    assert script.summary([row, replace(other, proof_seconds=3.0)]) == (
        "2 of 2 proved; the highest bound is 2^-65, of other on tiny; at most 400 MiB; 1 take longer than their "
        "cycle simulation; axioms: A, B"
    )


def test_the_last_row_of_a_journal_counts(script, row, tmp_path):
    rows = [replace(row, proved=False, difference="d"), row]
    (tmp_path / "j").write_text("".join(json.dumps(asdict(each)) + "\n" for each in rows))
    assert script.rows_of(tmp_path / "j") == {("net", "tiny"): row}
    assert script.rows_of(tmp_path / "none") == {}


def test_the_configurations_are_those_of_the_acceptance(script):
    assert {"default", "paper", "small", "tiny", "batch4", "32x32", "16x8", "8x16"} <= set(script.CONFIGS)


def test_a_network_is_compiled_in_one_process_and_proved_in_another(script, tmp_path, monkeypatch):
    ran = []

    def in_process(function, *arguments):
        ran.append(function)
        return function(*arguments)

    monkeypatch.setattr(script, "in_process", in_process)
    (tmp_path / "net_int8.onnx").write_bytes(model().SerializeToString())
    result_row = script.row_of(tmp_path / "net_int8.onnx", "tiny")
    assert ran == [script.write_module, script.measure]
    assert result_row.is_right
    assert (result_row.network, result_row.config) == ("net", "tiny")
    assert result_row.mebibytes > 0


def test_a_function_runs_in_another_process(script):
    assert script.in_process(os.getpid) != os.getpid()
