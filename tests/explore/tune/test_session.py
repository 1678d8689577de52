"""Tuning of a network: what it proposes, keeps, resumes and stops at."""

from math import inf

import pytest

from tests.explore.tune.networks import LAYERS, POOLING, SMALL, TARGET, here, records, tune
from vdla.compiler.codegen.choice_cache import cached
from vdla.compiler.codegen.choose import simulated_cycles
from vdla.compiler.codegen.space import space_of
from vdla.compiler.codegen.tuned.log import merge, read_log, write_log
from vdla.compiler.codegen.tuned.record import TuneError, best_of
from vdla.compiler.tasks.base import choice_from_json
from vdla.explore.tune.known import DEFAULT
from vdla.explore.tune.measure import Measured, Measuring, Start

TRIALS = 40


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return the log of an undisturbed tuning, what its explorers were told, and its progress."""
    told, path = [], tmp_path_factory.mktemp("whole") / "log"
    done = tune(path, here(), told, trials=TRIALS)
    return path, told, done


def test_every_trial_is_a_record_with_its_cycles(whole):
    path, _, done = whole
    log_records = read_log(path).records
    assert (done.trials, done.measured, done.resumed) == (TRIALS, TRIALS, 0)
    assert [record.explorer for record in log_records[: len(LAYERS)]] == [DEFAULT] * len(LAYERS)
    trials = log_records[len(LAYERS) :]
    assert sorted(record.trial for record in trials) == list(range(1, TRIALS + 1))
    assert len({(record.task, record.choice_text) for record in log_records}) == len(log_records)
    tasks = {str(task): task for task in LAYERS}
    for record in trials[::7]:
        assert record.cycles == simulated_cycles(tasks[record.task], choice_from_json(record.choice), TARGET)


def test_the_default_choice_is_that_of_the_compiler_and_the_best_is_no_worse(whole):
    path, _, done = whole
    best = best_of(read_log(path).records)
    for task, standing in zip(LAYERS, done.standings, strict=True):
        assert standing.default == simulated_cycles(task, cached()(space_of(task, TARGET)), TARGET)
        assert standing.best == best[str(task), TARGET.timing_digest].cycles
        assert standing.bound <= standing.best <= standing.default
    counts = [len(names) for names in LAYERS.values()]
    assert done.cycles == tuple(
        sum(getattr(standing, name) * count for standing, count in zip(done.standings, counts, strict=True))
        for name in ("default", "best")
    )


def test_explorers_are_told_the_default_first_and_then_each_batch(whole):
    _, told, done = whole
    for task, standing in zip(LAYERS, done.standings, strict=True):
        batches = [heard for name, *heard in told if name == str(task) and heard[0] != "others"]
        if standing.trials:
            assert batches[0][1] == [standing.default]
            assert sum(len(places) for places, _ in batches[1:]) == standing.trials
            assert min(cycles for _, costs in batches for cycles in costs) == standing.best
    first, *later = [heard[1] for _, *heard in told if heard[0] == "others"]
    assert len(first) == len(LAYERS) - 1
    assert all(count >= 1 for others in later for _, count in others)


@pytest.mark.parametrize("seed", [1, 2])
def test_the_order_in_which_workers_end_does_not_matter(whole, tmp_path, seed):
    path, told, _ = whole
    heard = []
    tune(tmp_path / "log", here(seed), heard, trials=TRIALS)
    assert records(tmp_path / "log") == records(path)
    assert heard == told


@pytest.mark.parametrize("after", [1, 3, 4, 9, 25, 42])
def test_an_interrupted_tuning_goes_on_where_it_was(whole, tmp_path, after):
    path, told, _ = whole
    log, done, heard = tmp_path / "log", [], []
    with pytest.raises(KeyboardInterrupt):
        tune(log, here(dies_after=after, done=done), trials=TRIALS)
    assert records(log)[1] == after
    with log.open("ab") as file:
        file.write(b"0123456789abcdef {")  # what a write that was cut off leaves
    finished = tune(log, here(5, done=done), heard, trials=TRIALS)
    assert records(log) == records(path)
    assert heard == told
    measured = [thing for thing in done if not isinstance(thing, Start)]
    assert len(measured) == len({thing.number for thing in measured}) == TRIALS
    assert finished.resumed + finished.measured == finished.trials == TRIALS


def test_a_finished_tuning_measures_nothing_again_and_goes_on_with_more_trials(whole, tmp_path):
    path, _, _ = whole
    log, done = tmp_path / "log", []
    log.write_bytes(path.read_bytes())
    assert tune(log, here(done=done), trials=TRIALS).measured == 0
    assert log.read_bytes() == path.read_bytes()
    assert all(thing.choice is not None for thing in done), "the default choices are known"
    more = tune(log, here(), trials=TRIALS + 16)
    assert (more.resumed, more.measured) == (TRIALS, 16)


def test_halves_of_two_machines_merge_to_the_whole(whole, tmp_path):
    path, _, _ = whole
    first_half, second_half = tmp_path / "one", tmp_path / "other"
    with pytest.raises(KeyboardInterrupt):
        tune(first_half, here(dies_after=30, done=[]), trials=TRIALS)
    tune(second_half, here(7), trials=TRIALS // 2)
    merge([first_half, second_half], tmp_path / "both")
    both = records(tmp_path / "both")
    assert both[0] == records(first_half)[0] | records(second_half)[0]
    assert both[1] == len(both[0])
    tune(tmp_path / "both", here(), trials=TRIALS)
    assert records(tmp_path / "both")[0] == records(path)[0]


def test_what_another_seed_measured_is_told_and_not_measured_again(whole, tmp_path):
    path, _, before = whole
    log, told, done = tmp_path / "log", [], []
    log.write_bytes(path.read_bytes())
    after = tune(log, here(done=done), told, trials=16, seed=9)
    assert (after.trials, after.measured) == (16, 16)
    places = {(name, place) for name, *heard in told[1:] if heard[0] != "others" for place in heard[0]}
    fresh = [(str(thing.task), thing.place) for thing in done if not isinstance(thing, Start)]
    assert len(set(fresh)) == 16
    assert set(fresh) <= places
    choices = [(record.task, record.choice_text) for record in read_log(log).records]
    assert len(set(choices)) == len(choices)
    assert after.cycles[1] <= before.cycles[1]


def test_records_of_another_version_count_for_nothing(whole, tmp_path):
    from dataclasses import replace

    path, _, _ = whole
    write_log(
        [replace(record, version="old", cycles=1) for record in read_log(path).records], tmp_path / "log"
    )
    done = tune(tmp_path / "log", here(), trials=8)
    assert (done.resumed, done.measured) == (0, 8)
    assert min(standing.best for standing in done.standings) > 1


def test_a_space_ends_when_all_of_it_was_proposed(tmp_path):
    space = space_of(POOLING, TARGET)
    done = tune(tmp_path / "log", here(), layers={POOLING: ["pool"]}, trials=10_000)
    assert done.trials <= len(space)
    (standing,) = done.standings
    assert standing.is_done


def test_time_ends_a_tuning(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("vdla.explore.tune.session.time.monotonic", lambda: now[0])

    def report(progress):
        now[0] += 10

    done = tune(tmp_path / "log", here(), layers={SMALL: ["b"]}, minutes=1, report=report)
    assert 0 < done.trials <= 8
    assert done.total is None
    assert done.remaining_seconds == 0


def test_an_illegal_choice_is_a_record_with_the_reason(tmp_path, monkeypatch):
    real = Measuring.measured
    monkeypatch.setattr(
        Measuring,
        "measured",
        lambda self, trial: (
            Measured(trial.number, None, "it is Tuesday") if trial.number == 2 else real(self, trial)
        ),
    )
    told = []
    done = tune(tmp_path / "log", here(), told, layers={SMALL: ["b"]}, trials=8)
    assert done.failed == 1
    (bad,) = [record for record in read_log(tmp_path / "log").records if record.cycles is None]
    assert (bad.trial, bad.status) == (2, "it is Tuesday")
    assert [cycles for _, _, cycles in told if inf in cycles]
    again = tune(tmp_path / "log", here(), layers={SMALL: ["b"]}, trials=8)
    assert (again.failed, again.measured) == (1, 0)


def test_a_default_choice_that_cannot_be_measured_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(Measuring, "measured", lambda self, trial: Measured(trial.number, None, "no"))
    with pytest.raises(TuneError, match="layer b: the default choice cannot be measured: no"):
        tune(tmp_path / "log", here(), layers={SMALL: ["b"]}, trials=8)
