"""Samples and inputs on the command line: files of every kind, shapes that come from them, outputs."""

import json
import wave

import numpy as np
import pytest
from PIL import Image

from tests.cli.commands import done, invoke, refused
from tests.cli.models import CONSTANTS, float_model, model, node
from tests.cli.networks import IMAGE, made_in

OPEN = float_model(shape=("N", 1, "h", "w"))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return a folder with models, inputs, samples and a module."""
    folder = made_in(tmp_path_factory.mktemp("samples"))
    (folder / "open.onnx").write_bytes(OPEN.SerializeToString())
    with np.load(folder / "samples.npz") as samples:
        stack = samples["x"]
    np.save(folder / "stack.npy", stack[:, 0])
    np.savez(folder / "unnamed.npz", stack)
    (folder / "folder").mkdir()
    for number, image in enumerate(stack):
        np.save(folder / "folder" / f"{number}.npy", image)
    return folder


@pytest.mark.parametrize("given", ["samples.npz", "stack.npy", "unnamed.npz", "folder"])
@pytest.mark.parametrize("name", ["float.onnx", "open.onnx"])
def test_samples_of_all_files_give_one_module(files, tmp_path, name, given):
    arguments = ("compile", files / name, "--config", "tiny", "--calibrate", files / given)
    done(*arguments, "-o", tmp_path / "a.vdla")
    arguments = ("compile", files / "float.onnx", "--config", "tiny", "--calibrate", files / "samples.npz")
    done(*arguments, "-o", tmp_path / "b.vdla")
    assert (tmp_path / "a.vdla").read_bytes() == (tmp_path / "b.vdla").read_bytes()


def test_shapes_that_samples_leave_open_are_named(files, tmp_path):
    (tmp_path / "time.onnx").write_bytes(float_model(shape=("time", 1, 8, 8)).SerializeToString())
    arguments = ("compile", tmp_path / "time.onnx", "--config", "tiny", "--calibrate", files / "stack.npy")
    said = refused(*arguments)
    assert said.endswith(
        "give --shape x=3,1,8,8 if the array holds a single sample, or --shape x=1,1,8,8 if it holds 3"
    )
    done(*arguments, "--shape", "x=1,1,8,8")
    assert "x: float32[3, 1, 8, 8]" in done(*arguments, "--shape", "x=3,1,8,8").stdout


def test_several_samples_run_one_after_the_other(files, tmp_path):
    arguments = ("run", files / "net.vdla", "--device", "cycle", "--input")
    printed = done(*arguments, files / "stack.npy", "--output", tmp_path / "all.npz").stdout
    assert printed.splitlines()[1].startswith("  runs         3, one for each sample, ")
    single = []
    for number in range(3):
        done(*arguments, files / "folder" / f"{number}.npy", "--output", tmp_path / "one.npy")
        single.append(np.load(tmp_path / "one.npy"))
    with np.load(tmp_path / "all.npz") as outputs:
        np.testing.assert_array_equal(outputs["y"], np.concatenate(single))
    assert json.loads(done(*arguments, files / "stack.npy", "--json").stdout)["runs"] == 3


def test_an_npy_file_holds_the_only_output(files, tmp_path):
    done("run", files / "net.vdla", "--input", files / "in.npz", "--output", tmp_path / "o.npy")
    done("run", files / "net.vdla", "--input", files / "in.npz", "--output", tmp_path / "o.npz")
    with np.load(tmp_path / "o.npz") as outputs:
        np.testing.assert_array_equal(np.load(tmp_path / "o.npy"), outputs["y"])
    part = ("--config", "tiny", "--inputs", "xq", "--outputs", "rq,pq")
    said = refused("run", files / "net.onnx", *part, "--output", tmp_path / "two.npy")
    assert (
        said
        == f"{tmp_path}/two.npy: an .npy file holds one array, and the network makes rq, pq; name an .npz file"
    )
    assert not (tmp_path / "two.npy").exists()


def test_another_ending_than_that_of_arrays_is_refused(files, tmp_path):
    said = refused("run", files / "net.vdla", "--output", tmp_path / "o.csv")
    assert said == (
        f"{tmp_path}/o.csv has the ending .csv; outputs are written as .npz or .npy: name a file with one of "
        "these endings"
    )
    assert not (tmp_path / "o.csv").exists()


def test_images_are_samples_and_inputs(files, tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "images").mkdir()
    pixels = rng.integers(0, 256, (3, 8, 8), np.uint8)
    for number, image in enumerate(pixels):
        Image.fromarray(image).save(tmp_path / "images" / f"{number}.png")
    np.save(tmp_path / "scaled.npy", (pixels[:, None] / np.float32(255) - np.float32(0.5)) / np.float32(0.25))
    scale = ("--image-mean", "0.5", "--image-std", "0.25")
    outputs = []
    for given, options in ((tmp_path / "images", scale), (tmp_path / "scaled.npy", ())):
        arguments = ("run", files / "float.onnx", "--config", "tiny", "--calibrate", given, *options)
        done(*arguments, "--input", given, "--output", tmp_path / "o.npy")
        outputs.append(np.load(tmp_path / "o.npy"))
    np.testing.assert_allclose(*outputs, atol=1e-5)
    Image.fromarray(np.zeros((20, 30, 3), np.uint8)).save(tmp_path / "large.png")
    ran = done("run", files / "net.vdla", "--input", tmp_path / "large.png", "--image-preset", "unit")
    assert ran.stderr == f"{tmp_path}/large.png: an image of 30 x 20 pixels was scaled and cropped to 8 x 8\n"


IMAGE_OPTIONS = {
    ("--image-mean", "0.5"): "--image-mean and --image-std go together; give both, or --image-preset",
    ("--image-mean", "a", "--image-std", "1"): "--image-mean a is not of the form 0.485,0.456,0.406",
    (
        "--image-mean",
        "1",
        "--image-std",
        "0",
    ): "the image's mean 1 and std 0 must be finite numbers, std above 0",
    (
        "--image-preset",
        "unit",
        "--image-mean",
        "1",
    ): "--image-preset says what --image-mean and --image-std say; give one or the others",
    ("--image-preset", "unit"): "a scale for images is given, and no image; arrays are taken as they are",
}


@pytest.mark.parametrize("options", IMAGE_OPTIONS)
def test_options_of_images_are_checked(files, options):
    assert refused("run", files / "net.vdla", "--input", files / "in.npz", *options) == IMAGE_OPTIONS[options]


def test_a_recording_is_cut_into_windows(tmp_path):
    weights = {"m": CONSTANTS["m"]}
    (tmp_path / "rows.onnx").write_bytes(
        model([node("MatMul", "x m", "y")], weights, shape=(1, 64)).SerializeToString()
    )
    with wave.open(str(tmp_path / "s.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(np.random.default_rng(0).integers(-9000, 9000, 200, np.int16).tobytes())
    arguments = ("--config", "tiny", "--calibrate", tmp_path / "s.wav", "--input", tmp_path / "s.wav")
    ran = done("run", tmp_path / "rows.onnx", *arguments, "--output", tmp_path / "o.npy")
    assert ran.stderr == (
        f"{tmp_path}/o.npy: holds y\n"
        f"{tmp_path}/s.wav: 16000 Hz, 3 windows of 64, 8 values at the end left out\n"
    )
    assert np.load(tmp_path / "o.npy").shape == (3, 5)


def test_a_fixed_input_may_stand_in_the_samples(files, tmp_path):
    nodes = [node("Mul", "x gain", "a"), *float_model().graph.node]
    nodes[1].input[0] = "a"
    network = float_model()
    del network.graph.node[:]
    network.graph.node.extend(nodes)
    gain = network.graph.input.add()
    gain.CopyFrom(network.graph.input[0])
    gain.name = "gain"
    (tmp_path / "gain.onnx").write_bytes(network.SerializeToString())
    np.savez(tmp_path / "s.npz", x=IMAGE[None], gain=np.full((1, 1, 8, 8), 2.0))
    arguments = ("compile", tmp_path / "gain.onnx", "--config", "tiny", "--calibrate", tmp_path / "s.npz")
    done(*arguments, "--fix", "gain=2")
    assert refused(*arguments, "--fix", "gain=3").endswith(
        "input gain is fixed to 3, and its array holds 2.0; leave the array out, or fix the input to that"
    )


def test_a_module_stands_next_to_its_model_by_default(files, tmp_path):
    (tmp_path / "net.onnx").write_bytes((files / "net.onnx").read_bytes())
    printed = done("compile", tmp_path / "net.onnx", "--config", "tiny").stdout
    assert printed.splitlines()[-1].startswith(f"{tmp_path}/net.vdla: ")
    assert (tmp_path / "net.vdla").read_bytes() == (files / "net.vdla").read_bytes()


def test_each_model_of_a_folder_is_compiled_and_one_that_is_refused_stops_no_other(files, tmp_path):
    models = tmp_path / "models"
    models.mkdir()
    for name in ("a", "c"):
        (models / f"{name}.onnx").write_bytes((files / "net.onnx").read_bytes())
    (models / "b.onnx").write_bytes(b"no model")
    (models / "notes.txt").write_text("nothing")
    result = invoke("compile", models, "-o", tmp_path / "modules", "--config", "tiny")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {models}/b.onnx: this is not an ONNX model, or it is damaged")
    *_, head, first, second, third, last = result.stdout.splitlines()
    assert head.split() == ["model", "cycles", "MACs", "there", "launches", "result"]
    cycles = json.loads(done("run", files / "net.vdla", "--device", "cycle", "--json").stdout)["cycles"]
    assert first.split() == ["a.onnx", f"{cycles:,}", "100.0%", "2", "compiled"]
    assert second.startswith("b.onnx ")
    assert "refused: " in second
    assert third.split()[1:] == first.split()[1:]
    assert last == f"{models}: 2 of 3 models compiled to {tmp_path}/modules"
    assert sorted(path.name for path in (tmp_path / "modules").iterdir()) == ["a.vdla", "c.vdla"]
    (models / "b.onnx").unlink()
    done("compile", models, "--config", "tiny")
    assert (models / "c.vdla").read_bytes() == (files / "net.vdla").read_bytes()


def test_the_modules_of_a_folder_are_not_written_to_a_name_of_one_module(files, tmp_path):
    (tmp_path / "net.onnx").write_bytes((files / "net.onnx").read_bytes())
    said = refused("compile", tmp_path, "-o", tmp_path / "all.vdla")
    assert said == (
        f"{tmp_path}/all.vdla is named as a module, and {tmp_path} is a folder of models; -o names the folder of "
        "their modules"
    )


def test_a_folder_without_models_is_refused(tmp_path):
    said = refused("compile", tmp_path)
    assert said == f"{tmp_path} is a folder without models; files with the ending .onnx are compiled"
