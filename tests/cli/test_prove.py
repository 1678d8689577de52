"""`vdla prove` and `vdla compile --prove`: results, exit status, and errors for bad input."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import vdla
from tests.cli.commands import done, invoke, refused
from tests.cli.models import QUANTISED as CONSTANTS
from tests.cli.models import model
from tests.cli.networks import made_in
from vdla.prove import compare
from vdla.runtime.module.file import load, save

KEYS = {"proved", "failure_probability", "axioms", "layers", "difference", "explanation", "seed", "seconds"}
LAYER_KEYS = {"name", "op", "launch", "elements", "proved"}


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """Return a folder with models, inputs, samples and a module."""
    return made_in(tmp_path_factory.mktemp("networks"))


@pytest.fixture
def patch(files, tmp_path):
    """Return a patch that changes the accumulator of the last micro-op of a launch."""
    plan = load(files / "net.vdla")
    stream = plan.streams[plan.launches[0].stream]
    everything = stream.words.tobytes() + stream.uops.tobytes()
    place = len(everything) - stream.uops.itemsize
    (tmp_path / "patch.json").write_text(json.dumps([[0, place, everything[place] ^ 1]]))
    return tmp_path / "patch.json"


def test_a_module_is_proved(files):
    printed = done("prove", files / "net.vdla", "--layers").stdout
    head, compared, bound, *rest = printed.splitlines()
    assert head.startswith("net on tiny: proved in ")
    assert compared.startswith("  compared ")
    assert compared.endswith(" layers in 2 launches")
    assert int(bound.split("^")[1].split(":")[0]) < -60
    assert any(line.startswith(("  axiom ", "  axioms ")) for line in rest)
    assert printed.count(" equal\n") == int(compared.split()[-5])
    assert "equal\n" not in done("prove", files / "net.vdla").stdout


def test_json_has_every_layer_and_a_seed_repeats_the_proof(files):
    proof = json.loads(done("prove", files / "net.vdla", "--seed", 5, "--json").stdout)
    again = json.loads(done("prove", files / "net.vdla", "--seed", 5, "--json").stdout)
    assert set(proof) == KEYS
    assert set(proof["layers"][0]) == LAYER_KEYS
    assert proof["proved"] is True
    assert proof["difference"] == ""
    assert proof["explanation"] is None
    assert 0 < proof["failure_probability"] < 2**-60
    assert proof["seed"] == 5
    assert {**proof, "seconds": 0} == {**again, "seconds": 0}
    seeds = {json.loads(done("prove", files / "net.vdla", "--json").stdout)["seed"] for _ in range(2)}
    assert len(seeds) == 2


def test_a_patched_stream_is_refused(files, patch):
    result = invoke("prove", files / "net.vdla", "--stream-patch", patch, "--json")
    proof = json.loads(result.stdout)
    assert result.exit_code == 1
    assert proof["proved"] is False
    assert "instruction" in proof["difference"]
    text = invoke("prove", files / "net.vdla", "--stream-patch", patch)
    assert text.exit_code == 1
    assert text.stdout.startswith("net on tiny: not proved in ")
    assert "  difference " in text.stdout
    assert proof["explanation"]["text"]
    assert "  first term " in text.stdout


def test_a_module_without_its_graph_is_proved_with_the_model(files, tmp_path):
    target = tmp_path / "bare.vdla"
    done("compile", files / "net.onnx", "-o", target, "--config", "tiny", "--no-graph")
    assert load(target).graphs is None
    assert target.stat().st_size < (files / "net.vdla").stat().st_size
    assert "carries no graph to compare its streams with; give the model" in refused("prove", target)
    assert "net on tiny: proved" in done("prove", target, "--model", files / "net.onnx").stdout


def test_a_module_of_another_model_is_not_proved(files, tmp_path):
    other = model(constants={**CONSTANTS, "wq": CONSTANTS["wq"][::-1]})
    (tmp_path / "other.onnx").write_bytes(other.SerializeToString())
    assert invoke("prove", files / "net.vdla", "--model", tmp_path / "other.onnx").exit_code == 1


def test_a_float_model_is_quantised_as_it_was_for_the_module(files, tmp_path):
    options = ("--calibrate", files / "samples.npz", "--percentile", 99)
    done("compile", files / "float.onnx", "-o", tmp_path / "f.vdla", "--config", "tiny", *options)
    assert "proved in" in done("prove", tmp_path / "f.vdla", "--model", files / "float.onnx", *options).output


def test_options_of_compilation_need_a_model(files):
    message = refused("prove", files / "net.vdla", "--percentile", 99, "--quality", "fast")
    assert message == "--percentile and --quality say how a model is compiled; give the model with --model"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing", "is not a stream patch: "),
        ("[[2, 0, 0]]", "the patch changes launch 2, and net has 2 launches; they are numbered from 0"),
        ("[[0, 99999999, 0]]", "the patch changes byte 99999999 of launch 0, which has "),
    ],
)
def test_a_patch_that_does_not_fit_is_bad_input(files, tmp_path, text, message):
    (tmp_path / "patch.json").write_text(text)
    assert message in refused("prove", files / "net.vdla", "--stream-patch", tmp_path / "patch.json")


def test_compile_writes_what_is_proved(files, tmp_path):
    arguments = ("compile", files / "net.onnx", "-o", tmp_path / "net.vdla", "--config", "tiny", "--prove")
    assert "net on tiny: proved in " in done(*arguments).stdout
    assert (tmp_path / "net.vdla").read_bytes() == (files / "net.vdla").read_bytes()


def test_compile_writes_nothing_that_is_not_proved(files, tmp_path, monkeypatch):
    prove = compare.prove
    monkeypatch.setattr(
        compare,
        "prove",
        lambda *given, **named: replace(prove(*given, **named), proved=False, difference="d"),
    )
    arguments = ("compile", files / "net.onnx", "-o", tmp_path / "net.vdla", "--config", "tiny", "--prove")
    result = invoke(*arguments)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: net is not proved, and no module is written: d (seed ")
    assert not list(tmp_path.iterdir())


def test_the_python_interface_proves_what_it_compiles(files, tmp_path):
    module = vdla.compile(files / "net.onnx", "tiny")
    proof, steps = module.prove(seed=3), []
    assert proof.proved
    assert proof.seed == 3
    module.save(tmp_path / "net.vdla")
    assert vdla.load(tmp_path / "net.vdla").prove(seed=3, progress=steps.append) == proof
    assert steps


def test_other_weights_in_a_module_are_a_difference(files, tmp_path):
    plan = load(files / "net.vdla")
    name, weights = next((name, array) for name, array in plan.weights.items() if np.any(array))
    changed = weights.copy()
    changed.reshape(-1).view(np.uint8)[np.flatnonzero(weights.reshape(-1).view(np.uint8))[0]] ^= 1
    save(replace(plan, weights={**plan.weights, name: changed}), tmp_path / "net.vdla")
    assert invoke("prove", tmp_path / "net.vdla").exit_code == 1
