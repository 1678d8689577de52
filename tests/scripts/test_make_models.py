"""The example networks equal the published networks, their files are valid, and they are quantised where
they should be."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from click import ClickException
from click.testing import CliRunner
from onnx import TensorProto, numpy_helper

PARAMETERS = {  # that training changes, counted from the publications
    "resnet18": 11_689_512,
    "resnet50": 25_557_032,
    "mobilenet": 4_231_976,
    "lstm_cell": 2 * 650 * 2600 + 2600,
    "dqn": 1_693_362,
    "dcgan": 12_658_432,
    "transformer": 789_760,
    "mobilenet_v2": 3_504_872,
    "mobilenet_v3_small": 2_542_856,
    "efficientnet_b0": 5_288_548,
    "shufflenet_v2": 2_278_604,
    "regnet_y": 4_344_144,
    "yolo": 3_157_184 + 3 * 2100 + 16 + 2 * 4,  # and cells, bins and factors of Resize
    "unet": 7_763_074,
    "convnext": 3_695_520,
    "vit": 1_713_640,
    "crnn": 8_722_725,
    "waveform": 559_114,
    "branchy": 174_900,
}
FOLDED = ("mobilenet_v2", "waveform", "branchy")
REGIONS = {
    "lstm_cell": {("Gemm",): 2, ("Add",): 2, ("Split",): 1, ("Sigmoid",): 3, ("Tanh",): 2, ("Mul",): 3},
    "dqn": {("Conv", "Relu"): 3, ("Flatten",): 1, ("Gemm", "Relu"): 1, ("Gemm",): 1},
    "transformer": {
        ("Gemm",): 6,
        ("Reshape",): 4,
        ("Transpose",): 4,
        ("MatMul",): 2,
        ("Mul", "Softmax"): 1,
        ("Add",): 2,
        ("LayerNormalization",): 2,
        ("Gelu",): 1,
    },
    "resnet18": {
        ("Conv", "Relu"): 9,
        ("Conv",): 11,
        ("Add", "Relu"): 8,
        ("MaxPool",): 1,
        ("GlobalAveragePool",): 1,
        ("Flatten",): 1,
        ("Gemm",): 1,
        ("Softmax",): 1,
    },
}
SMALL = ("lstm_cell", "dqn")


@pytest.fixture(scope="module")
def script(script):
    """Return a function that imports a script by its name, once make_models is imported."""
    script("make_models")
    return script


@pytest.fixture(scope="module")
def folder(script, tmp_path_factory):
    """Return a folder with the models of REGIONS, made by the command."""
    directory = tmp_path_factory.mktemp("models")
    done = make(script, directory, *REGIONS)
    assert done.exit_code == 0, done.output
    return directory


def make(script, folder: Path, *names: str, force: bool = False):
    """Run the command for some networks."""
    only = [word for name in names for word in ("--only", name)]
    return CliRunner().invoke(
        script("make_models").main, ["--output", str(folder), *only, *["--force"] * force]
    )


def weights_of(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Return the initializers by name."""
    return {weight.name: numpy_helper.to_array(weight) for weight in model.graph.initializer}


def makers_of(model: onnx.ModelProto) -> dict[str, onnx.NodeProto]:
    """Return the node that makes each value."""
    return {name: node for node in model.graph.node for name in node.output}


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_network_has_as_many_parameters_as_published(script, name):
    model = script("models.catalogue").NETWORKS[name].build(0)
    statistics = {
        weight
        for node in model.graph.node
        if node.op_type == "BatchNormalization"
        for weight in node.input[3:]
    }
    sizes = [
        values.size
        for weight, values in weights_of(model).items()
        if weight not in statistics and values.dtype == np.float32 and values.ndim
    ]
    assert sum(sizes) == PARAMETERS[name]


def test_the_command_lists_the_networks(script):
    listed = CliRunner().invoke(script("make_models").main, ["--list"])
    assert [line.split()[0] for line in listed.output.splitlines()] == list(PARAMETERS)


def test_files_are_whole_and_valid(folder):
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        f"{name}{form}.onnx" for name in REGIONS for form in ("", "_int8")
    )
    for path in folder.iterdir():
        onnx.checker.check_model(onnx.load(path), full_check=True)


def test_the_same_seed_gives_the_same_files(script, folder, tmp_path):
    make(script, tmp_path, *SMALL)
    assert len(list(tmp_path.iterdir())) == 2 * len(SMALL)
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (folder / path.name).read_bytes()


def test_files_are_kept_unless_forced(script, tmp_path):
    path = tmp_path / "lstm_cell.onnx"
    make(script, tmp_path, "lstm_cell")
    whole = path.read_bytes()
    path.write_bytes(b"kept")
    assert make(script, tmp_path, "lstm_cell").output == ""
    assert path.read_bytes() == b"kept"
    make(script, tmp_path, "lstm_cell", force=True)
    assert path.read_bytes() == whole


@pytest.mark.parametrize("name", REGIONS)
def test_operators_are_quantised_one_by_one(script, folder, name):
    assert script("models.regions").regions(onnx.load(folder / f"{name}_int8.onnx")) == REGIONS[name]


@pytest.mark.parametrize("name", REGIONS)
def test_everything_is_symmetric_int8(folder, name):
    model = onnx.load(folder / f"{name}_int8.onnx")
    weights = weights_of(model)
    for node in model.graph.node:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            zero = weights[node.input[2]]
            assert zero.dtype in (np.int8, np.int32)
            assert not zero.any()
            assert (weights[node.input[1]] > 0).all()
    floats = [
        weight.name
        for weight in model.graph.initializer
        if weight.data_type == TensorProto.FLOAT and weight.dims
    ]
    scales = {node.input[1] for node in model.graph.node if node.op_type.endswith("quantizeLinear")}
    kept = {
        name for node in model.graph.node if node.op_type == "LayerNormalization" for name in node.input[1:]
    }
    assert set(floats) <= scales | kept


def test_weights_of_convolutions_have_a_scale_per_channel(folder):
    model = onnx.load(folder / "resnet18_int8.onnx")
    weights, makers = weights_of(model), makers_of(model)
    for node in model.graph.node:
        if node.op_type in ("Conv", "Gemm"):
            dequantised = makers[node.input[1]]
            assert weights[dequantised.input[1]].shape == weights[dequantised.input[0]].shape[:1]


def test_resnet18_is_quantised_from_its_image_to_its_softmax(folder):
    model = onnx.load(folder / "resnet18_int8.onnx")
    makers, weights = makers_of(model), weights_of(model)
    assert [node.op_type for node in model.graph.node if "image" in node.input] == ["QuantizeLinear"]
    softmax = makers["probabilities"]
    assert (softmax.op_type, makers[softmax.input[0]].op_type) == ("Softmax", "DequantizeLinear")
    for node in model.graph.node:
        if node.op_type not in ("QuantizeLinear", "DequantizeLinear", "Relu"):
            assert {makers[value].op_type for value in node.input if value not in weights} == {
                "DequantizeLinear"
            }


@pytest.mark.parametrize("name", REGIONS)
def test_a_quantised_network_stays_close_to_the_float_one(script, folder, name):
    network, run = script("models.catalogue").NETWORKS[name], script("models.run")
    feeds = network.samples(1, 5)[0]
    plain, quantised = (
        run.run(run.session_of(onnx.load(folder / f"{name}{form}.onnx")), feeds) for form in ("", "_int8")
    )
    assert script("make_models").difference(plain, quantised) < 0.08


def test_the_lstm_cell_is_the_published_one(script, folder):
    model, run = onnx.load(folder / "lstm_cell.onnx"), script("models.run")
    feeds = script("models.catalogue").NETWORKS["lstm_cell"].samples(1, 3)[0]
    weights = weights_of(model)
    from_inputs, bias, from_hidden = (
        weights[name] for node in model.graph.node[:2] for name in node.input[1:]
    )
    gates = feeds["inputs"] @ from_inputs.T + bias + feeds["hidden"] @ from_hidden.T
    opened, forgotten, shown = (1 / (1 + np.exp(-gate)) for gate in np.split(gates, 4, 1)[:3])
    cell = forgotten * feeds["cell"] + opened * np.tanh(gates[:, 3 * 650 :])
    outputs = run.run(run.session_of(model), feeds)
    np.testing.assert_allclose(outputs["next_cell"], cell, atol=1e-5)
    np.testing.assert_allclose(outputs["next_hidden"], shown * np.tanh(cell), atol=1e-5)


def test_settling_gives_batch_normalisation_its_input_statistics(script):
    graph = script("models.graph").GraphBuilder("two", 0)
    data = graph.conv(graph.input("image", 1, 3, 20, 20), 3, 4, 3)
    model = graph.finish(normed=graph.batch_norm(data, 4))
    samples = [{"image": np.random.default_rng(0).standard_normal((1, 3, 20, 20), np.float32)}]
    script("models.statistics").settle(model, samples)
    run = script("models.run")
    normed = run.run(run.session_of(model), samples[0])["normed"]
    scale, shift = (weights_of(model)[name] for name in model.graph.node[1].input[1:3])
    np.testing.assert_allclose(normed.mean((0, 2, 3)), shift, atol=1e-3)
    np.testing.assert_allclose(normed.std((0, 2, 3)), scale, rtol=1e-3)


@pytest.mark.parametrize("name", FOLDED)
def test_folded_networks_compute_what_they_did(script, name):
    network, run = script("models.catalogue").NETWORKS[name], script("models.run")
    plain, folded = replace(network, folds=False).model(0), network.model(0)
    assert {node.op_type for node in folded.graph.node} == {node.op_type for node in plain.graph.node} - {
        "BatchNormalization"
    }
    feeds = network.samples(1, 5)[0]
    actual, expected = (run.run(run.session_of(model), feeds) for model in (folded, plain))
    assert script("make_models").difference(expected, actual) < 1e-4


def test_nodes_behind_an_operator_stay_in_float(script, tmp_path):
    graph = script("models.graph").GraphBuilder("tail", 0)
    scores = graph.dense(graph.relu(graph.input("frames", 1, 8)), 8, 4)
    likely = graph.node("Softmax", scores, axis=-1)
    path = tmp_path / "tail.onnx"
    onnx.save(graph.finish(values=graph.dense(likely, 4, 3)), path)
    samples = [{"frames": np.random.default_rng(0).standard_normal((1, 8)).astype(np.float32)}]
    quantised = script("models.quantise").quantise(path, samples, float_behind=frozenset({"Softmax"}))
    assert script("models.regions").regions(quantised) == {("Relu",): 1, ("Gemm",): 1, ("Softmax", "Gemm"): 1}


def test_an_if_takes_the_early_exit_where_it_is_clear(script):
    network, run = script("models.catalogue").NETWORKS["branchy"], script("models.run")
    model = network.model(0)
    feeds = network.samples(1, 5)[0]
    deep = run.run(run.session_of(model), feeds)["scores"]
    limit = model.graph.node[-1].input[0]
    greater = makers_of(model)[limit].input[1]
    weight = next(weight for weight in model.graph.initializer if weight.name == greater)
    weight.CopyFrom(numpy_helper.from_array(np.array(0, np.float32), greater))
    early = run.run(run.session_of(model), feeds)["scores"]
    assert early.shape == deep.shape == (1, 10)
    assert not np.allclose(early, deep)


def test_a_network_whose_outputs_vanish_is_refused_and_not_written(script, tmp_path):
    def vanishing(seed: int) -> onnx.ModelProto:
        graph = script("models.graph").GraphBuilder("vanishing", seed)
        return graph.finish(
            values=graph.node(
                "Mul", graph.input("frames", 1, 4, 84, 84), graph.constant(np.zeros(1, np.float32))
            )
        )

    network = replace(script("models.catalogue").NETWORKS["dqn"], build=vanishing)
    with pytest.raises(
        ClickException,
        match=r"^dqn: output values lies in 0.0..0.0; finite values that differ were expected$",
    ):
        script("make_models").make(network, tmp_path, False)
    assert not list(tmp_path.iterdir())
