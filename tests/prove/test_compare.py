"""Proofs of whole plans: plans of the compiler are proved, and plans that compute something else are not."""

import re
from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from tests.compiler.network.compiled import handmade, plan_of
from tests.compiler.network.graphs import HANDMADE, random_graph
from vdla.hw.spec import encoding, isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import VdlaError
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.hw.spec.vocabulary import Extension
from vdla.prove.compare import prove
from vdla.prove.graphs import Graphs, graphs_for
from vdla.prove.patch import Patch, with_patches
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.module.plan import HostStep, LaunchStep, Plan, random_inputs
from vdla.runtime.session.session import Session
from vdla.runtime.windows import Windows

FULL = TINY.with_changes(name="tiny with everything", extensions=tuple(Extension))
BATCHED = TINY.with_changes(name="tiny batches", batch=2)
CONFIGS = (TINY, FULL, BATCHED)
NAME = "residual"


def proof_of(plan: Plan, graphs: Graphs):
    return prove(plan, graphs, seed=7)


def planned(graph, config: AcceleratorConfig) -> tuple[Plan, Graphs]:
    plan = plan_of(graph, config)
    return plan, graphs_for(graph, plan.target)


@pytest.fixture(scope="module")
def network() -> tuple[Plan, Graphs]:
    graph, plan = handmade(NAME)
    return plan, graphs_for(graph, plan.target)


@pytest.mark.parametrize("config", CONFIGS, ids=[config.name for config in CONFIGS])
@pytest.mark.parametrize("title", HANDMADE)
def test_plans_of_graphs_by_hand_are_proved(title, config):
    plan, graphs = planned(handmade(title)[0], config)
    proof = proof_of(plan, graphs)
    assert proof.difference == ""
    assert proof.proved
    assert proof.failure_probability < 2**-60
    computed = [layer for step in plan.launches for layer in step.layers if layer.result is not None]
    assert [layer.name for layer in proof.layers] == [layer.name for layer in computed]
    assert all(layer.proved and layer.elements for layer in proof.layers)


@pytest.mark.parametrize("seed", range(12))
def test_plans_of_random_graphs_are_proved(seed):
    proof = proof_of(*planned(random_graph(seed), CONFIGS[seed % len(CONFIGS)]))
    assert proof.difference == ""


def test_a_seed_repeats_a_proof_and_the_operating_system_gives_others(network):
    assert proof_of(*network) == proof_of(*network)
    first, second = (prove(*network).seed for _ in range(2))
    assert first != second


def outputs_of(plan: Plan) -> list[bytes]:
    """Return the outputs of a plan for random inputs; an error in place of them where it cannot run."""
    outputs = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        inputs = {
            name: rng.integers(-128, 128, value.shape).astype(value.dtype) if value.dtype == "int8" else array
            for (name, value), array in zip(
                plan.inputs.items(), random_inputs(plan.inputs, seed).values(), strict=True
            )
        }
        outcome = Session(FunctionalDevice(plan.config, plan.dram_bytes), plan).run(inputs)
        outputs += [outcome.outputs[name].tobytes() for name in sorted(outcome.outputs)]
    return outputs


def test_a_changed_byte_of_a_stream_is_proved_only_if_the_results_stay(network):
    plan, graphs = network
    expected = outputs_of(plan)
    stream = plan.streams[plan.launches[0].stream]
    size = stream.words.nbytes + stream.uops.nbytes
    before = stream.words.tobytes() + stream.uops.tobytes()
    rng, refused, changed = np.random.default_rng(3), 0, 0
    for offset in rng.integers(0, size, 120).tolist():
        broken = with_patches(plan, [Patch(0, offset, before[offset] ^ 1 << int(rng.integers(8)))])
        proved = proof_of(broken, graphs).proved
        refused += not proved
        try:
            results = outputs_of(broken)
        except VdlaError:
            assert not proved
            continue
        if results != expected:
            changed += 1
            assert not proved, f"byte {offset}"
    assert changed > 10
    assert refused >= changed


def test_swapped_blocks_of_weights_are_a_difference_in_their_layer(network):
    plan, graphs = network
    name, values = next(
        (name, values)
        for name, values in plan.weights.items()
        if values.dtype == np.int8 and len(values.reshape(-1, 16)) > 1
    )
    blocks = values.reshape(-1, plan.config.block_in * plan.config.block_out).copy()
    blocks[[0, 1]] = blocks[[1, 0]]
    proof = proof_of(replace(plan, weights={**plan.weights, name: blocks.reshape(values.shape)}), graphs)
    assert not proof.proved
    assert not proof.layers[-1].proved
    step = plan.launches[0]
    layer = next(each for each in step.layers if each.name == proof.layers[-1].name)
    head, element, rest = re.fullmatch(
        r"(.*): element (\[[0-9, ]+\]) of (.*elements differ.*)", proof.difference
    ).groups()
    assert head == f"{step.stream}, layer {layer.name} ({layer.op})"
    assert element == "[0, 0, 0, 0]"
    writer = int(re.search(r"which instruction (\d+) \(STORE\(", rest)[1])
    assert writer in plan.streams[step.stream].labels[layer.label]


def test_other_steps_on_the_host_are_a_difference():
    graph, plan = handmade("with the host between")
    graphs = graphs_for(graph, plan.target)
    place, step = next((at, each) for at, each in enumerate(plan.steps) if isinstance(each, HostStep))
    assert proof_of(plan, graphs).proved
    for other, text in (
        (replace_record(step, op="Identity"), "of other inputs or attributes"),
        (replace_record(step, outputs=("elsewhere",)), "no operator of the graph does"),
        (replace_record(step, inputs=("nowhere",)), "which no step before makes"),
    ):
        steps = (*plan.steps[:place], other, *plan.steps[place + 1 :])
        assert text in proof_of(replace(plan, steps=steps), graphs).difference


def replace_record(step: HostStep | LaunchStep, **changes):
    """Return a step with other fields."""
    return type(step)(**{**{name: getattr(step, name) for name in step.__struct_fields__}, **changes})


def test_other_constants_of_the_graph_are_a_difference(network):
    plan, graphs = network
    name, array = next((name, array) for name, array in graphs.target.constants.items() if array.ndim == 4)
    other = array.copy()
    other.flat[0] ^= 1
    changed = replace(graphs.target, constants={**graphs.target.constants, name: other})
    proof = proof_of(plan, Graphs(graphs.integers, changed))
    assert not proof.proved


def test_a_graph_that_the_passes_changed_is_a_difference(network):
    plan, graphs = network
    name, array = next((name, array) for name, array in graphs.integers.constants.items() if array.ndim == 4)
    other = array.copy()
    other.flat[0] ^= 1
    changed = replace(graphs.integers, constants={**graphs.integers.constants, name: other})
    proof = proof_of(plan, Graphs(changed, graphs.target))
    assert not proof.proved
    assert all(layer.proved for layer in proof.layers)


def test_stores_into_other_tensors_are_refused(network):
    plan, graphs = network
    step = plan.launches[0]
    layer = step.layers[-1]
    assert layer.result is not None
    other = next(name for name in plan.tensors if name != layer.result.tensor)
    result = type(layer.result)(layer.result.value, other, layer.result.layout)
    layers = (*step.layers[:-1], replace_record(layer, result=result))
    steps = tuple(replace_record(step, layers=layers) if each is step else each for each in plan.steps)
    proof = proof_of(replace(plan, steps=steps), graphs)
    assert "writes the tensor" in proof.difference


def test_configurations_of_other_widths_are_not_covered(network):
    plan, graphs = network
    config = DEFAULT.with_changes(name="narrow", inp_bits=4)
    proof = proof_of(replace(plan, target=replace(plan.target, config=config)), graphs)
    assert "values of 4 bits in INP; a proof covers 8 bits" in proof.difference


def test_a_wrong_step_of_a_gemm_is_named():
    graph, plan = handmade("residual")
    graphs = graphs_for(graph, plan.target)
    step = plan.launches[0]
    stream = plan.streams[step.stream]
    field = encoding.field_of(isa.Gemm, "wgt_factor_in", plan.config)
    word, start = divmod(field.start, 64)
    named = 0
    for position in np.flatnonzero(stream.words[:, 0] & np.uint64(7) == isa.Opcode.GEMM).tolist():
        words = stream.words.copy()
        words[position, word] ^= np.uint64(1 << start)
        proof = proof_of(
            replace(plan, streams={**plan.streams, step.stream: replace(stream, words=words)}), graphs
        )
        if "layer" in proof.difference:
            named += f"instruction {position} (GEMM(" in proof.difference
            assert "elements differ; " in proof.difference
    assert named


def with_results(plan: Plan, change) -> Plan:
    """Return a plan in which the crossings of layers' results are changed."""

    def changed(step: object) -> object:
        if not isinstance(step, LaunchStep):
            return step
        layers = (
            layer if layer.result is None else structs.replace(layer, result=change(layer.result))
            for layer in step.layers
        )
        return structs.replace(step, layers=tuple(layers))

    return replace(plan, steps=tuple(map(changed, plan.steps)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda result: structs.replace(result, value="V"), "has no value 'V', which the plan compares"),
        (
            lambda result: structs.replace(result, layout=structs.replace(result.layout, shape=(1, 1, 1, 1))),
            "of shape [1, 1, 1, 1], and in the graph it has [",
        ),
        (
            lambda result: structs.replace(
                result, layout=structs.replace(result.layout, windows=Windows(1, 1, 1, 64, 1, 1, (0, 0)))
            ),
            "its layout leaves out elements of",
        ),
    ],
)
def test_a_plan_that_compares_less_than_the_graph_has_is_refused(network, change, message):
    plan, graphs = network
    proof = proof_of(with_results(plan, change), graphs)
    assert not proof.proved
    assert message in proof.difference
