"""Networks in the styles of files: what is right, what onnxruntime does not write, and what is wrong."""

import json

import onnx
import pytest
from click.testing import CliRunner

from vdla.compiler.graph.nodes import GraphError

NETWORK = "dqn"


@pytest.fixture(scope="module")
def script(script):
    """Return scripts/check_styles.py."""
    return script("check_styles")


@pytest.fixture(scope="module")
def models(script, tmp_path_factory):
    """Return a folder with a small float model."""
    folder = tmp_path_factory.mktemp("models")
    script.by_size([NETWORK], folder)
    return folder


@pytest.fixture
def check(script, models, tmp_path):
    """Return a function that runs the command on the small network in some styles."""

    def run(*styles: str, journal: bool = False):
        arguments = [NETWORK, "--models", str(models), "--keep", str(tmp_path / "wrong")]
        arguments += ["--journal", str(tmp_path / "journal")] if journal else []
        return CliRunner().invoke(script.main, arguments + [f"--style={style}" for style in styles])

    return run


def test_styles_that_are_right_have_a_line_each(check, tmp_path):
    done = check("qdq-u8", "qoperator", journal=True)
    assert done.exit_code == 0, done.output
    *lines, total = done.output.splitlines()
    assert [line.split()[:3] for line in lines if line.startswith(NETWORK)] == [
        [NETWORK, "qdq-u8", "right"],
        [NETWORK, "qoperator", "right"],
    ]
    assert total.startswith("2 files: 2 right, 2 of them in one launch, 0 refused, 0 that")
    noted = [json.loads(line) for line in (tmp_path / "journal").read_text().splitlines()]
    assert all(entry["layers"] >= 5 and entry["share"] > 0.99 and entry["cycles"] > 0 for entry in noted)
    assert not (tmp_path / "wrong").exists()


def test_what_the_tools_do_not_write_is_no_fault(check):
    done = check("qdq-s8u8")
    assert done.exit_code == 0, done.output
    assert "1 that onnxruntime's tools do not write, 0 wrong; 0 layers" in done.output
    assert "doesn't support data format" in done.output


def test_a_wrong_network_is_kept_and_tried_again(script, check, monkeypatch, tmp_path):
    monkeypatch.setattr(script, "compared", lambda model, seed: (["Int8Conv y: it is 3 off"], {"layers": 7}))
    for tries in (1, 2):
        done = check("float", journal=True)
        assert done.exit_code == 1
        assert "    Int8Conv y: it is 3 off" in done.output
        assert "1 wrong; 7 layers" in done.output
        assert len((tmp_path / "journal").read_text().splitlines()) == tries
    assert onnx.load(tmp_path / "wrong" / f"{NETWORK}.float.onnx").graph.node


def test_what_was_right_is_not_tried_again(script, check, monkeypatch):
    monkeypatch.setattr(script, "compared", lambda model, seed: ([], {"layers": 7, "launches": 1}))
    assert check("float", journal=True).exit_code == 0
    monkeypatch.setattr(script, "checked", None)
    done = check("float", journal=True)
    assert done.exit_code == 0
    assert "1 files: 1 right, 1 of them in one launch" in done.output


@pytest.mark.parametrize(
    ("error", "verdict", "text"),
    [
        (GraphError("node 3 is odd"), "refused", "node 3 is odd"),
        (IndexError("far"), "wrong", "IndexError: far"),
    ],
)
def test_refusals_and_tracebacks_fail(script, check, monkeypatch, error, verdict, text):
    def compared(model, seed):
        raise error

    monkeypatch.setattr(script, "compared", compared)
    done = check("float")
    assert done.exit_code == 1
    assert f"float                  {verdict}" in done.output
    assert text in done.output


def test_an_accelerator_that_differs_is_wrong(script, models, monkeypatch):
    usual = script.interpret
    monkeypatch.setattr(
        script, "interpret", lambda graph, inputs: {n: a + 1 for n, a in usual(graph, inputs).items()}
    )
    faults, figures = script.compared(onnx.load(models / f"{NETWORK}.onnx"), 0)
    assert len(faults) == 1
    assert faults[0].endswith("elements on the accelerator differ")
    assert figures["layers"] >= 5


def test_the_smallest_network_comes_first(script, tmp_path):
    for name, size in {"resnet18": 9, "dqn": 5, "vit": 7}.items():
        (tmp_path / f"{name}.onnx").write_bytes(bytes(size))
    assert script.by_size(["resnet18", "dqn", "vit"], tmp_path) == ["dqn", "vit", "resnet18"]
