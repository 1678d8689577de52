"""Which measured choices make a whole network fastest."""

import pytest

from tests.compiler.codegen.tuned.records import TARGET, TASK, choice, record
from vdla.compiler.codegen.space import space_of
from vdla.compiler.codegen.tuned.best_records import best_records
from vdla.compiler.codegen.tuned.log import TuningLog
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.network.stages import parts_of, tasks_of
from vdla.compiler.network.tuning import cycles_of_plan, network_of, tuned_plan
from vdla.compiler.tasks.base import choice_from_json, choice_to_json
from vdla.explore.sweep.specification import Conv
from vdla.explore.sweep.workloads import conv_graph
from vdla.explore.tune.known import DEFAULT
from vdla.explore.tune.measure import Measuring, Trial
from vdla.explore.tune.settings import Settings
from vdla.explore.tune.settle import CANDIDATES, Cost, Network, best_together, settled
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.module.plan import random_inputs
from vdla.runtime.session.session import Session

OWN = record(1000, 0, explorer=DEFAULT)


def trials(*others):
    return {str(TASK): [OWN, *others]}


@pytest.mark.parametrize(
    ("others", "in_network", "expected"),
    [
        pytest.param([record(900, 1)], {1: 880}, 1, id="better in both"),
        pytest.param([record(900, 1)], {1: 1010}, 0, id="worse in the network"),
        pytest.param([record(1005, 1)], {1: 950}, 1, id="better in the network alone"),
        pytest.param([record(1500, 1)], {1: 1}, 0, id="too far behind to be tried"),
        pytest.param([record(900, 1), record(950, 2)], {1: 990, 2: 970}, 2, id="the second is best"),
        pytest.param([], {}, 0, id="nothing to try"),
    ],
)
def test_choices_are_kept_where_the_network_becomes_faster(others, in_network, expected):
    cycles = {choice(0): 1000} | {
        choice(place): network_cycles for place, network_cycles in in_network.items()
    }
    chosen, before, after = best_together(
        {TASK: ["a"]}, trials(*others), lambda choices: Cost(cycles[choices[TASK]])
    )
    assert chosen == {TASK: choice(expected)}
    assert (before, after) == (1000, cycles[choice(expected)])


@pytest.mark.parametrize(
    ("cost", "kept"),
    [
        (Cost(990, 500.0), True),
        (Cost(990, 570.0), True),
        (Cost(990, 590.0), False),
        (Cost(1010, 0.0), False),
    ],
)
def test_more_bytes_must_save_cycles(cost, kept):
    costs = {choice(0): Cost(1000, 500.0), choice(1): cost}
    chosen, _, _ = best_together({TASK: ["a"]}, trials(record(900, 1)), lambda choices: costs[choices[TASK]])
    assert (chosen[TASK] == choice(1)) is kept


def test_few_choices_of_a_task_are_tried_the_best_first():
    tried = []

    def cycles(choices):
        tried.append(choices[TASK])
        return Cost(1000)

    best_together({TASK: ["a"]}, trials(*(record(990 - place, place) for place in range(1, 9))), cycles)
    assert tried == [choice(place) for place in (0, 8, 7, 6)]
    assert len(tried) == 1 + CANDIDATES


@pytest.fixture
def network():
    conv = Conv(channels=32, outputs=32, size=8)
    graph = conv_graph("layer", conv)
    return graph, Network("net.onnx", *parts_of(graph, TARGET), TARGET)


def measured(network, places):
    """Return records of some choices for the network's task, the first as the default choice."""
    (task,) = tasks_of(network.parted)
    task_records = []
    for number, place in enumerate(places):
        task_choice = space_of(task, TARGET).choice(place)
        cycles = Measuring(TARGET).measured(Trial(number, task, place, task_choice)).cycles
        explorer = DEFAULT if number == 0 else "random"
        task_records.append(
            record(cycles, place, task=str(task), choice=choice_to_json(task_choice), explorer=explorer)
        )
    return task_records


def test_a_settlement_is_kept_once_and_used_for_its_network(network, tmp_path):
    graph, net = network
    log = TuningLog(tmp_path / "log")
    log.append(measured(net, range(0, 2000, 400)))
    before, after = settled(net, log, Settings("random"), 5, lambda text: None)
    assert after <= before
    count = len(log.records)
    assert settled(net, log, Settings("random"), 5, lambda text: None) == (before, after)
    assert len(log.records) == count
    assert settled(net, log, Settings("random"), 6, lambda text: None) == (before, after)
    settlements = [settlement for settlement in log.records if settlement.network]
    assert {settlement.network for settlement in settlements} == {network_of(net.layers)}
    assert {settlement.cycles for settlement in settlements} == {after}
    plan, tuning = tuned_plan(graph, TARGET, best_records("log", log.records), no_choice, lambda text: None)
    assert cycles_of_plan(plan) == after
    assert (tuning.with_record, tuning.tasks) == (1, 1)
    log.close()
    inputs = random_inputs(plan.inputs)
    outputs = Session(FunctionalDevice(plan.config, plan.dram_bytes), plan).run(inputs).outputs
    assert (outputs["y"] == interpret(graph, inputs)["y"]).all()


def test_a_settlement_of_another_version_is_measured_again(network):
    graph, net = network
    slow, fast = sorted(measured(net, [0, 1200]), key=lambda trial: -trial.cycles)
    assert slow.cycles > fast.cycles
    digest = network_of(net.layers)
    for old, default_record in ((fast, slow), (slow, fast)):
        records = best_records(
            "log", [record(1, network=digest, version="old", task=old.task, choice=old.choice)]
        )
        plan, tuning = tuned_plan(
            graph,
            TARGET,
            records,
            lambda space, default_record=default_record: choice_from_json(default_record.choice),
            lambda text: None,
        )
        assert tuning.remeasured == (old is fast)
        assert bool(tuning.worse) is (old is slow)
        assert (
            cycles_of_plan(plan) == net.cost({tasks_of(net.parted)[0]: choice_from_json(fast.choice)}).cycles
        )


def test_a_settlement_that_is_not_whole_or_not_legal_is_not_used(network):
    graph, net = network
    (default_record,) = measured(net, [0])
    digest = network_of(net.layers)
    for wrong in ({"task": "another"}, {"choice": default_record.choice | {"threads": 64}}):
        values = {"task": default_record.task, "choice": default_record.choice} | wrong
        records = best_records("log", [record(1, network=digest, **values)])
        _, tuning = tuned_plan(graph, TARGET, records, lambda space: space.choice(0), lambda text: None)
        assert tuning.with_record == 0


def no_choice(space):
    raise AssertionError(f"{space} has a record")
