"""The option that names a device."""

import click

from vdla.runtime.devices.registry import DEVICE_CLASSES, is_remote
from vdla.runtime.devices.remote.address import PREFIX


class DeviceName(click.Choice[str]):
    """The name of a device of this machine, or the address of a remote device."""

    def __init__(self) -> None:
        super().__init__([*DEVICE_CLASSES])

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return a name; a name that is no address has to be one of the choices."""
        return value if is_remote(value) else super().convert(value, param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return what the help shows."""
        return f"[{'|'.join(self.choices)}|{PREFIX}HOST:PORT]"


DEVICE = DeviceName()
