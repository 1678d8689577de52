"""Elaboration is reproducible, leaves no trace in the process, and refuses what LiteX refuses."""

import logging
import os
import sys

import msgspec
import pytest

from vdla.boards import soc as soc_module
from vdla.boards.description import load_board
from vdla.boards.soc import elaborate, system_key
from vdla.hw.spec.errors import ConfigError
from vdla.hw.spec.presets import SMALL, TINY

BOARD = load_board("ulx3s-85f")


def test_a_system_has_sources_without_dates_and_leaves_the_process_as_before():
    before = _process()
    system = elaborate(BOARD, TINY, 70.0)
    assert _process() == before
    assert not any(line.startswith("//") for line in system.verilog.splitlines())
    assert system.device == ("--85k", "--package", "CABGA381", "--speed", "6")
    assert (system.memory_bytes, system.memory_bytes_per_cycle, system.levelling) == (32 << 20, 2, None)


def test_the_key_of_a_system_covers_board_configuration_clock_and_libraries(monkeypatch):
    key = system_key(BOARD, TINY, 70.0)
    other = msgspec.structs.replace(BOARD, title="another")
    assert key == system_key(load_board("ulx3s-85f"), TINY, 70.0)
    keys = {key, system_key(other, TINY, 70.0), system_key(BOARD, SMALL, 70.0), system_key(BOARD, TINY, 71.0)}
    monkeypatch.setattr(soc_module, "version", lambda name: "0")
    assert len({*keys, system_key(BOARD, TINY, 70.0)}) == 5


def _process():
    """Return what LiteX changes in a process: folder, log, standard error."""
    root = logging.root
    return os.getcwd(), root.handlers[:], root.level, root.manager.disable, sys.stderr


def test_a_clock_that_the_pll_cannot_give_is_refused():
    with pytest.raises(
        ConfigError, match=r"^ulx3s-85f with tiny at 900 MHz: LiteX refuses the system: a limit of the FPGA"
    ):
        elaborate(BOARD, TINY, 900.0)
