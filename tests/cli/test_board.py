"""`vdla run` on a board: a network behind the driver, and the options that name a board."""

import json

import msgspec
import numpy as np
import onnx
import pytest
from wire.python_board import PythonBoard

from tests.cli.commands import done, invoke
from tests.cli.models import model
from vdla.boards.board_file import from_toml, to_toml
from vdla.hw.spec import target_files
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.presets import SMALL, TINY
from vdla.hw.spec.target import Target


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """A module for `tiny`."""
    folder = tmp_path_factory.mktemp("network")
    onnx.save(model(), folder / "net.onnx")
    done("compile", folder / "net.onnx", "--config", "tiny", "-o", folder / "net.vdla")
    return folder / "net.vdla"


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    """The folder of a board that runs."""
    folder = tmp_path_factory.mktemp("board")
    with PythonBoard(Target(TINY)) as running:
        (folder / "board.toml").write_text(to_toml(running.file))
        yield folder


def test_a_network_on_a_board_gives_the_outputs_and_cycles_of_its_accelerator(network, board, tmp_path):
    records = {}
    for device in (("board", "--board", board), ("cycle",)):
        out = tmp_path / f"{device[0]}.npz"
        result = done("run", network, "--json", "--output", out, "--device", *device)
        records[device[0]] = json.loads(result.stdout), dict(np.load(out))
    (on_board, outputs), (simulated, wanted) = records["board"], records["cycle"]
    assert on_board["cycles"] == simulated["cycles"] > 0
    assert outputs.keys() == wanted.keys()
    for name in wanted:
        np.testing.assert_array_equal(outputs[name], wanted[name])


def test_the_options_that_name_a_board_need_each_other(network, board):
    assert "--device board needs --board" in invoke("run", network, "--device", "board").output
    result = invoke("run", network, "--device", "cycle", "--board", board)
    assert result.exit_code == 2
    assert "needs --device board, not --device cycle" in result.output.replace("\n", " ")


def test_the_cycles_of_layers_are_those_of_the_memory_in_the_board_file(network, board, tmp_path):
    file = from_toml((board / "board.toml").read_text())
    target = Target(TINY, memory=MemoryParameters(latency=90))
    table = msgspec.structs.replace(file.board, target=target_files.to_toml(target))
    (tmp_path / "board.toml").write_text(to_toml(msgspec.structs.replace(file, board=table)))
    on_board = json.loads(done("run", network, "--json", "--device", "board", "--board", tmp_path).stdout)
    slow = json.loads(done("run", network, "--json", "--device", "cycle", "--latency", "90").stdout)
    assert on_board["target"] == slow["target"]
    layers = [[layer["cycles"] for layer in record["layers"]] for record in (on_board, slow)]
    assert layers[0] == layers[1]


def test_the_memory_of_a_board_cannot_be_chosen(network, board):
    result = invoke("run", network, "--device", "board", "--board", board, "--latency", "90")
    assert result.exit_code == 2
    assert "a board has its DRAM: leave them out" in result.output.replace("\n", " ")


def test_a_board_of_another_configuration_is_refused(network, board, tmp_path):
    (tmp_path / "board.toml").write_text(with_small((board / "board.toml").read_text()))
    result = invoke("run", network, "--device", "board", "--board", tmp_path)
    assert result.exit_code == 2
    assert "error: board python holds the configuration small" in result.stderr


def with_small(text: str) -> str:
    """Return a board file whose board holds `small`."""
    file = from_toml(text)
    table = msgspec.structs.replace(
        file.board, config_digest=SMALL.digest, target=target_files.to_toml(Target(SMALL))
    )
    return to_toml(msgspec.structs.replace(file, board=table))
