"""The stages of the network compiler: values between them, choices that are followed, equal layers that are
treated once."""

from dataclasses import replace

import numpy as np
import pytest

from tests.compiler.network.graphs import HANDMADE, Net, random_inputs
from vdla.compiler.codegen.choose import by_estimate
from vdla.compiler.codegen.tiles import Tiles
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.network import stages
from vdla.compiler.network.stages import ChoiceError, Choices
from vdla.compiler.tasks.base import Choice
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.devices.registry import device_of
from vdla.runtime.module.file import to_bytes
from vdla.runtime.session.session import Session

TARGET = Target(TINY)


def twins(net: Net) -> Graph:
    x = net.conv(net.input(1, 8, 6, 6), 8, (3, 3), pads=(1, 1, 1, 1))
    for _ in range(3):
        x = net.conv(x, 8, (3, 3), pads=(1, 1, 1, 1))
    return net.graph(x)


def chosen_for(graph: Graph, choices: Choices | None = None) -> dict:
    _, parted = stages.parts_of(graph, TARGET)
    return stages.choices_for(stages.tasks_of(parted), TARGET, choices or Choices(), by_estimate)


@pytest.mark.parametrize("tables", [True, False])
def test_a_chain_of_operators_on_elements_is_one_step_where_the_accelerator_has_tables(tables):
    graph = parse_graph(
        "def f(x: int8[1, 16, 4, 4]):\n"
        "    p: int64[4, 1] = constant([[5], [20000], [5150], [32640]])\n"
        "    a: int8[1, 16, 4, 4] = Int8Requantise(x, p)\n"
        "    y: int8[1, 16, 4, 4] = Int8Mul(x, a, p, zeros=(1, -2))\n"
        "    return y\n"
    )
    without = () if tables else (Extension.TABLE, Extension.NORMALISE)
    extensions = tuple(each for each in Extension if each not in without)
    target = Target(replace(DEFAULT, extensions=extensions))
    plan = stages.plan_of(graph, target, choose=by_estimate)
    assert len(stages.tasks_of(stages.parts_of(graph, target)[1])) == (1 if tables else 2)
    inputs = random_inputs(graph, 0)
    outcome = Session(device_of("functional", target, plan.dram_bytes), plan).run(inputs)
    np.testing.assert_array_equal(outcome.outputs["y"], interpret(graph, inputs)["y"])


def test_equal_layers_are_chosen_once():
    asked = []
    stages.plan_of(twins(Net()), TARGET, choose=lambda space: asked.append(space.task) or by_estimate(space))
    assert len(asked) == 1


@pytest.mark.parametrize("title", ["residual", "pooled", "joined", "spread"])
def test_recorded_choices_give_the_same_module(title):
    graph = HANDMADE[title](Net())
    record = Choices(TARGET.timing_digest, chosen_for(graph))
    again = stages.plan_of(
        graph, TARGET, record, choose=lambda space: pytest.fail(f"{space.task} is recorded")
    )
    assert to_bytes(again) == to_bytes(stages.plan_of(graph, TARGET, choose=by_estimate))


def test_choices_of_another_target_are_refused():
    graph = twins(Net())
    record = Choices(TARGET.timing_digest, chosen_for(graph))
    with pytest.raises(
        ChoiceError,
        match=r"the choices were made for the target .* configuration or memory differ; choose again",
    ):
        stages.plan_of(graph, replace(TARGET, memory=MemoryParameters(65)), record)


def test_a_choice_outside_its_space_is_refused():
    graph = twins(Net())
    record = Choices(TARGET.timing_digest, dict.fromkeys(chosen_for(graph), Choice(2, Tiles(99, 1, 1, 1))))
    with pytest.raises(
        ChoiceError, match=r"Choice\(threads=2, .* is not among the \d+ choices for ConvolutionTask"
    ):
        stages.plan_of(graph, TARGET, record)


def test_targets_that_differ_in_memory_alone_give_modules_that_differ_and_results_that_do_not():
    graph = twins(Net())
    inputs, digests, outputs, cycles = random_inputs(graph, 0), set(), [], []
    for latency in (64, 400):
        target = replace(TARGET, memory=MemoryParameters(latency))
        plan = stages.plan_of(graph, target, choose=by_estimate)
        outcome = Session(device_of("cycle", target, plan.dram_bytes), plan).run(inputs)
        digests.add(plan.target.digest)
        outputs.append(outcome.outputs[graph.outputs[0]])
        cycles.append(outcome.cycles)
        assert to_bytes(plan) != to_bytes(replace(plan, target=TARGET)) or target == TARGET
    assert len(digests) == 2
    np.testing.assert_array_equal(*outputs)
    assert cycles[0] < cycles[1]
