"""Faults planted in streams: every kind is planted, as it says, and the verdicts follow from runs and proofs."""

import importlib
import json
from dataclasses import replace
from math import inf
from random import Random

import numpy as np
import pytest

from tests.compiler.lower.test_channelwise import narrowed_behind_zero_points
from tests.compiler.network.compiled import handmade, plan_of
from tests.compiler.network.test_chains import FED, inverted_residual, inverted_residual_with_tables
from tests.compiler.network.test_groups import ALL, EpilogueNet
from vdla.compiler.network import groups
from vdla.prove.proof import Proof

TITLES = ("residual", "several ends", "with the host between", "pooled")
KINDS = (
    "address",
    "factor",
    "padding",
    "weight block",
    "parameters",
    "micro-op",
    "stale tile",
    "trips",
    "pooling",
    "on chip",
    "scaling",
    "prefetch",
)


@pytest.fixture(scope="module")
def scripts():
    """Return what imports a module of the scripts."""
    return importlib.import_module


@pytest.fixture
def script(scripts):
    return scripts("break_streams")


def planted(scripts, kind):
    """Return plans with a fault of a kind planted, and the faults."""
    faults = scripts("proving.faults")
    plans = [handmade(title)[1] for title in TITLES]
    plans.append(plan_of(narrowed_behind_zero_points(EpilogueNet()), ALL))
    pairs = [
        (plan, faults.planted(plan, kind, Random(f"{kind} {seed}"))) for plan in plans for seed in range(4)
    ]
    return [(plan, fault) for plan, fault in pairs if fault is not None]


def test_the_kinds_are_those_of_the_table(scripts):
    assert tuple(scripts("proving.faults").KINDS) == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_changes_one_instruction_one_micro_op_or_two_blocks(scripts, kind):
    pairs = planted(scripts, kind)
    assert len(pairs) > 3
    for plan, fault in pairs:
        words = sum(
            int(np.any(stream.words != fault.plan.streams[name].words, axis=1).sum())
            for name, stream in plan.streams.items()
        )
        uops = sum(
            int(np.sum(stream.uops != fault.plan.streams[name].uops)) for name, stream in plan.streams.items()
        )
        arrays = [
            name
            for name, array in plan.weights.items()
            if not np.array_equal(array, fault.plan.weights[name])
        ]
        changed = 2 if kind == "prefetch" else 1
        assert (words, uops, len(arrays)) in {(changed, 0, 0), (0, 1, 0), (0, 0, 1)}
        for name in arrays:
            assert sorted(plan.weights[name].tobytes()) == sorted(fault.plan.weights[name].tobytes())
        assert fault.kind == kind


def test_a_fault_in_an_instruction_tells_the_field_and_its_values(scripts):
    faults = scripts("proving.faults")
    for plan, fault in planted(scripts, "factor"):
        place, _, change = fault.text.partition(": ")
        launch, _, index = place.partition(", instruction ")
        (name, before, _, after) = change.split()
        items = [
            faults.instructions_of(version.streams[launch])[int(index)] for version in (plan, fault.plan)
        ]
        assert [type(item).__name__.upper() for item in items] == [name.partition(".")[0]] * 2
        assert [str(getattr(item, name.partition(".")[2])) for item in items] == [before, after]


def test_equal_seeds_plant_equal_faults(scripts):
    texts = [[fault.text for _, fault in planted(scripts, "address")] for _ in range(2)]
    assert texts[0] == texts[1]
    assert len(set(texts[0])) > 3


@pytest.fixture
def subject(script):
    graph, plan = handmade("residual")
    return script.Subject("residual", graph, plan)


@pytest.mark.parametrize(
    ("changes", "proved", "verdict"),
    [(True, False, "caught"), (True, True, "missed"), (False, True, "same"), (False, False, "unseen")],
)
def test_the_verdict_follows_from_runs_and_the_proof(script, subject, monkeypatch, changes, proved, verdict):
    proof = Proof(proved, 0.0, (), (), "" if proved else "the difference", 0)
    monkeypatch.setattr(script, "proof_of", lambda *_, **__: proof)
    weights = {name: array.copy() for name, array in subject.plan.weights.items()}
    if changes:
        for array in weights.values():
            array[...] = 1
    fault = script.Fault("weight block", "text", replace(subject.plan, weights=weights))
    outcome = script.judged(subject, 3, fault)
    assert (outcome.verdict, outcome.difference) == (verdict, proof.difference)


@pytest.mark.parametrize("kind", ["pooling", "parameters", "address", "micro-op"])
def test_faults_in_a_pooling_of_sums_are_refused(scripts, script, kind):
    graph, plan = handmade("pooled")
    check = scripts("proving.check")
    assert check.proof_faults(plan, graph) == []
    assert "GREATEST_OF_SUMS" in check.proof_of(plan, graph).axioms
    subject = script.Subject("pooled", graph, plan)
    faults = [scripts("proving.faults").planted(plan, kind, Random(f"{kind} {seed}")) for seed in range(6)]
    verdicts = [script.judged(subject, number, fault).verdict for number, fault in enumerate(faults)]
    assert script.MISSED not in verdicts
    assert verdicts.count(script.CAUGHT) > 2


def test_a_value_that_only_the_host_reads_shows_a_fault(script):
    graph, plan = handmade("with the host between")
    subject = script.Subject("between", graph, plan)
    weights = {name: np.ones_like(array) for name, array in plan.weights.items()}
    fault = script.Fault("weight block", "text", replace(plan, weights=weights))
    inputs = next(iter(subject.inputs(1)))
    handed = [script.handed_over(each, inputs) for each in (plan, plan, fault.plan)]
    assert len(handed[0]) == sum(len(launch.unpacks) for launch in plan.launches) > 1
    assert handed[0] == handed[1] != handed[2]


def test_the_table_counts_verdicts_by_kind(script):
    outcomes = [
        script.Outcome("1", -1, "", "the unbroken stream", "same"),
        script.Outcome("1", 0, "address", "", "caught"),
        script.Outcome("1", 1, "address", "", "same"),
        script.Outcome("2", 0, "trips", "", "missed"),
    ]
    rows = {
        line[:14].strip(): [int(word) for word in line[14:].split()]
        for line in script.table(outcomes).splitlines()[1:]
    }
    assert rows["address"] == [2, 1, 0, 1, 0, 0, 0]
    assert rows["trips"] == [1, 0, 1, 0, 0, 0, 0]
    assert rows["all"] == [3, 1, 1, 1, 0, 0, 0]


def test_a_journal_is_continued(script, tmp_path):
    from click.testing import CliRunner

    journal = tmp_path / "journal.jsonl"
    row = {"subject": "0", "number": 0, "kind": "address", "text": "", "verdict": "missed", "difference": ""}
    journal.write_text(json.dumps(row) + "\n")
    done = CliRunner().invoke(script.main, ["--faults", "1", "--journal", str(journal)])
    assert done.exit_code == 1, done.output
    assert "1 networks, 0 alarms" in done.output
    assert len(journal.read_text().splitlines()) == 1


def test_loads_that_change_places_keep_their_tokens_and_their_tensors(scripts):
    faults = scripts("proving.faults")
    for plan, fault in planted(scripts, "prefetch"):
        for name, stream in plan.streams.items():
            broken = fault.plan.streams[name]
            before, after = faults.instructions_of(stream), faults.instructions_of(broken)
            moved = [place for place in range(len(before)) if before[place] != after[place]]
            if not moved:
                continue
            first, second = moved
            for token in faults.TOKENS:
                assert getattr(before[first], token) == getattr(after[first], token)
            assert after[first].dram_base == before[second].dram_base
            owner = {int(place): tensor for tensor, places in stream.tensors.items() for place in places}
            now = {int(place): tensor for tensor, places in broken.tensors.items() for place in places}
            assert (now.get(first), now.get(second)) == (owner.get(second), owner.get(first))


ON_CHIP = {
    "chain": (inverted_residual, FED),
    "chain with tables": (inverted_residual_with_tables, FED),
    "scaled inputs": (narrowed_behind_zero_points, ALL),
}


@pytest.mark.parametrize("name", ON_CHIP)
def test_faults_in_values_that_stay_on_chip_are_refused(scripts, script, monkeypatch, name):
    monkeypatch.setattr(groups, "least_estimate", lambda task, target: inf)  # every chain pays
    groups.least_cycles.cache_clear()
    make, config = ON_CHIP[name]
    graph, faults = make(EpilogueNet()), scripts("proving.faults")
    subject = script.Subject(name, graph, plan_of(graph, config))
    groups.least_cycles.cache_clear()
    verdicts = []
    for number, kind in enumerate((*KINDS, "on chip", "on chip")):
        fault = faults.planted(subject.plan, kind, Random(f"{name} {number}"))
        if fault is not None:
            verdicts.append((kind, script.judged(subject, number, fault).verdict))
    assert script.MISSED not in {verdict for _, verdict in verdicts}
    assert ("on chip", script.CAUGHT) in verdicts
    assert len(verdicts) >= len(KINDS) - 1
