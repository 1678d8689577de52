"""A small network, in files and as a module."""

from pathlib import Path

import numpy as np

from tests.cli.commands import done
from tests.cli.models import float_model, model
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.onnx.load import load
from vdla.compiler.network.compile import integer_graph

RNG = np.random.default_rng(0)
IMAGE = RNG.normal(size=(1, 1, 8, 8)).astype(np.float32)


def expected() -> np.ndarray:
    return interpret(integer_graph(load(model())), {"x": IMAGE})["y"]


def made_in(folder: Path) -> Path:
    """Write models, inputs, samples and a module into a folder; return it."""
    (folder / "net.onnx").write_bytes(model().SerializeToString())
    (folder / "float.onnx").write_bytes(float_model().SerializeToString())
    np.savez(folder / "in.npz", x=IMAGE)
    np.savez(folder / "samples.npz", x=RNG.normal(size=(3, 1, 1, 8, 8)).astype(np.float32))
    done("compile", folder / "net.onnx", "-o", folder / "net.vdla", "--config", "tiny")
    return folder
