"""Devices by name. A device's module is imported only when it is asked for: not everybody has the RTL
tools."""

from collections.abc import Callable
from functools import partial
from importlib import import_module

from vdla.hw.spec.errors import DeviceError
from vdla.hw.spec.extras import require_package
from vdla.hw.spec.target import Target
from vdla.runtime.device import Device
from vdla.runtime.devices.remote.address import FORM, PREFIX, address_of

DEVICE_CLASSES = {
    "functional": ("vdla.runtime.devices.functional", "FunctionalDevice"),
    "cycle": ("vdla.runtime.devices.cycle", "CycleDevice"),
    "rtl": ("vdla.runtime.devices.rtl.device", "RtlDevice"),
}
TIMED = ("cycle", "rtl")  # devices that run in front of a memory


REMOTE_CLASS = ("vdla.runtime.devices.remote.device", "RemoteDevice")
BOARD = "board"
BOARD_PREFIX = f"{BOARD}:"
BOARD_FORM = f"{BOARD_PREFIX}sim, {BOARD_PREFIX}FOLDER, {BOARD_PREFIX}FILE"
BOARD_CLASS = ("vdla.runtime.devices.board.device", "BoardDevice")
_BOARD_PACKAGES = ("litex", "serial")


def is_remote(name: str) -> bool:
    """Return whether a name is the address of a server's device."""
    return name.startswith(PREFIX)


def is_board(name: str) -> bool:
    """Return whether a name means a board, with or without the board's file."""
    return name == BOARD or name.startswith(BOARD_PREFIX)


def device_factory(name: str) -> Callable[..., Device]:
    """Return what makes a device of that name from a configuration, its bytes of DRAM and its options.

    Args:
        name: of `DEVICE_CLASSES`, an address as `vdla.runtime.devices.remote.address` describes it, or
            "board:BOARD" with a board as `vdla.runtime.devices.board.device` describes it.

    Raises:
        DeviceError: there is none of that name.
    """
    if is_remote(name):
        return partial(_class(*REMOTE_CLASS), address=address_of(name))
    if is_board(name):
        return partial(_class(*BOARD_CLASS), board=_board_of(name))
    if name not in DEVICE_CLASSES:
        raise DeviceError(
            f"no device is called {name!r}; there are {', '.join(DEVICE_CLASSES)}, {BOARD_FORM} and {FORM}"
        )
    return _class(*DEVICE_CLASSES[name])


def _board_of(name: str) -> str:
    """Return the board in a name; refuse a name without a board, and a kit without the packages of boards.

    Raises:
        DeviceError: the name has no board.
        ToolError: a package is not installed.
    """
    board = name.removeprefix(BOARD_PREFIX)
    if board in ("", BOARD):
        raise DeviceError(f"device {name} does not say which board; name {BOARD_FORM}")
    for package in _BOARD_PACKAGES:
        require_package(package, "a board")
    return board


def _class(module: str, name: str) -> Callable[..., Device]:
    device_class: Callable[..., Device] = getattr(import_module(module), name)
    return device_class


def require_device(name: str) -> None:
    """Refuse a device that needs what is not installed, before any work is done for it.

    Raises:
        DeviceError: there is none of that name.
        ToolError: it needs a package or a compiler that is not there.
    """
    device_factory(name)
    if is_remote(name):
        require_package("grpc", "a remote device")
    if name == "rtl":
        from vdla.runtime.devices.rtl.tools import compiler, verilator_root

        verilator_root()
        compiler()


def device_of(name: str, target: Target, dram_bytes: int, **options: object) -> Device:
    """Return a device of that name: the target's accelerator, and on timed devices in front of the target's
    memory.

    Args:
        dram_bytes: size of DRAM.
        options: further arguments of the device's class.

    Raises:
        DeviceError: there is none of that name.
    """
    memory = {"memory": target.memory} if name in TIMED or is_remote(name) else {}
    return device_factory(name)(target.config, dram_bytes, **memory, **options)
