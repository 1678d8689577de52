"""The options that name a device."""

import click

from vdla.runtime.devices.registry import BOARD, BOARD_PREFIX, DEVICE_CLASSES, is_board, is_remote
from vdla.runtime.devices.remote.address import PREFIX


class DeviceName(click.Choice[str]):
    """The name of a device of this machine, the address of a remote device, or a board."""

    def __init__(self) -> None:
        super().__init__([*DEVICE_CLASSES, BOARD])

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return a name; a name that is neither an address nor a board must be a choice of the option."""
        return value if is_remote(value) or is_board(value) else super().convert(value, param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return what the help shows."""
        return f"[{'|'.join(self.choices)}|{BOARD_PREFIX}BOARD|{PREFIX}HOST:PORT]"


DEVICE = DeviceName()
BOARD_OPTION = click.option(
    "--board",
    metavar="sim|DIR|FILE",
    help="Board for --device board: a folder that vdla build wrote, a board file, or sim, a simulated board.",
)


def with_board(device: str, board: str | None) -> str:
    """Return the name of the device that --device and --board name together.

    Raises:
        UsageError: the board does not fit the device.
    """
    if board is None and device != BOARD:
        return device
    if board is None:
        raise click.UsageError(
            "--device board needs --board: a folder that vdla build wrote, a board file or sim"
        )
    if device != BOARD:
        raise click.UsageError(f"--board {board} needs --device {BOARD}, not --device {device}")
    return f"{BOARD_PREFIX}{board}"
