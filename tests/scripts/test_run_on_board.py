"""Networks on boards beside the cycle device."""

import numpy as np
import onnx
import run_on_board
from wire.python_board import PythonBoard

import vdla
from tests.cli.models import model
from vdla.boards.board_file import to_toml
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.target import Target


def test_a_network_is_compared_with_the_cycle_device(tmp_path):
    onnx.save(model(), tmp_path / "net.onnx")
    module = vdla.compile(tmp_path / "net.onnx", "tiny")
    inputs = [{"x": np.full((1, 1, 8, 8), value, np.float32)} for value in (0.5, 1.0)]
    with PythonBoard(Target(TINY)) as board:
        (tmp_path / "board.toml").write_text(to_toml(board.file))
        run = run_on_board.compare(module, inputs, str(tmp_path))
    assert (run.inputs, run.different) == (2, 0)
    assert run.cycles == run.predicted > 0
    assert run.clock_hz == Target(TINY).clock_hz


def test_a_line_states_cycles_and_time():
    run = run_on_board.Run(3, 1, 1100, 1000, 50e6, (2.0, 0.5))
    assert run.line("net") == (
        "net: 3 inputs, 1 outputs differ; 1100 cycles, 1000 predicted (+10.0%); 0.022 ms at 50 MHz; wall time "
        "2.0 s for the first input, 0.50 s for each further one"
    )
