"""Boards by name: a folder that `vdla build --board` wrote, a board file, or `sim`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from vdla.boards.board_file import BoardFile, read_board_file
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import DeviceError
from vdla.runtime.devices.board.driver import Driver
from vdla.runtime.devices.board.link import open_link

SIMULATED = "sim"


@dataclass(frozen=True)
class Connection:
    """A board that answers.

    Attributes:
        driver: its driver.
        end: what has to end with the connection, as a simulation.
    """

    driver: Driver
    end: Callable[[], None]

    def close(self) -> None:
        """End the connection, and the simulation."""
        self.driver.close()
        self.end()


def connect(board: str, config: AcceleratorConfig, dram_bytes: int) -> Connection:
    """Connect to a board.

    Args:
        board: a folder with a board file, a board file, or SIMULATED.
        config: the accelerator that it has to hold.
        dram_bytes: that the device uses.

    Raises:
        DeviceError: the board cannot be reached, holds another accelerator, or has less DRAM.
        ConfigError: the board file is invalid.
        ToolError: a package or tool of the simulation is missing.
    """
    if board != SIMULATED:
        file = read_board_file(Path(board))
        return _connected(file, config, dram_bytes, lambda: None)
    from vdla.boards.simulated import simulate

    simulation = simulate(config)
    return _connected(simulation.file, config, dram_bytes, simulation.close)


def _connected(
    file: BoardFile, config: AcceleratorConfig, dram_bytes: int, end: Callable[[], None]
) -> Connection:
    """Connect to the board of a file; call `end` if that fails."""
    try:
        _check(file, config, dram_bytes)
        link = open_link(file.link)
        try:
            return Connection(Driver(file, link), end)
        except BaseException:
            link.close()
            raise
    except BaseException:
        end()
        raise


def _check(file: BoardFile, config: AcceleratorConfig, dram_bytes: int) -> None:
    """Refuse a board of another accelerator, or with too little DRAM."""
    name, digest = file.board.name, file.board.config_digest
    if digest != config.digest:
        built = file.target.config
        raise DeviceError(
            f"board {name} holds the configuration {built.name} ({digest[:12]}), and {config.name} "
            f"({config.digest[:12]}) is to run; build the board with that configuration, or compile for "
            f"{built.name}"
        )
    if dram_bytes > file.map.memory_bytes:
        raise DeviceError(
            f"{dram_bytes} bytes of DRAM are needed, and board {name} has {file.map.memory_bytes} bytes; "
            "take a board with more DRAM, or a smaller network"
        )
