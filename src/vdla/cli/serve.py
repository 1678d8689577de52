"""``vdla serve``."""

import asyncio
import logging
import signal
import sys
from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import Any

import click

from vdla.cli._options import Command, needs
from vdla.hw.spec.errors import DeviceError
from vdla.runtime.devices.registry import DEVICE_CLASSES, require_device
from vdla.runtime.devices.remote.address import is_loopback
from vdla.runtime.devices.remote.runners import MOST_PROCESSES
from vdla.runtime.devices.remote.sessions import Limits
from vdla.runtime.devices.remote.tokens import Tokens, read_tokens

LISTEN = "127.0.0.1:8510"
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def takes_limits(function: Command) -> Command:
    """Add an option for each limit; the command gets `limits`."""

    @wraps(function)
    def wrapped(**kwargs: Any) -> None:
        limits = Limits(**{limit.name: kwargs.pop(limit.name) for limit in fields(Limits)})
        function(limits=limits, **kwargs)

    for limit in reversed(fields(Limits)):
        wrapped = click.option(
            f"--{limit.name.replace('_', '-')}",
            type=click.IntRange(limit.metadata["low"]),
            default=limit.default,
            show_default=True,
            help=f"Limit: {limit.metadata['help']}.",
        )(wrapped)
    return wrapped


@click.command()
@click.option("--listen", default=LISTEN, show_default=True, metavar="HOST:PORT", help="Port 0: a free port.")
@click.option(
    "--device",
    "devices",
    multiple=True,
    default=("cycle", "functional"),
    show_default=True,
    type=click.Choice(list(DEVICE_CLASSES)),
    help="Device to offer; may be repeated. Clients that name none get the first.",
)
@click.option("--certificate", type=FILE, help="Certificate of the server and its chain, PEM.")
@click.option("--key", type=FILE, help="Private key of the certificate, PEM.")
@click.option("--tokens", type=FILE, help="Tokens of the clients: a line NAME:SECRET for each.")
@click.option("--insecure", is_flag=True, help="No TLS and no tokens; only on a loopback address.")
@click.option(
    "--processes", type=click.IntRange(1, MOST_PROCESSES), default=1, show_default=True, help="Runs at once."
)
@takes_limits
@needs("vdla serve", "grpc")
def command(
    listen: str,
    devices: tuple[str, ...],
    certificate: Path | None,
    key: Path | None,
    tokens: Path | None,
    insecure: bool,
    processes: int,
    limits: Limits,
) -> None:
    """Offer devices to other machines, until Ctrl-C.

    Clients name the device as remote://HOST:PORT, in `vdla run`, `vdla replay` and Python. Each has its own
    DRAM. Every stream is verified before it runs, and clients take turns. docs/remote.md describes
    certificates and tokens.
    """
    from vdla.runtime.devices.remote.server import Offer, serve

    _check_host(listen, insecure)
    for device in devices:
        require_device(device)
    files = (certificate, key, tokens)
    if insecure and any(files):
        raise click.UsageError(
            "--insecure has no TLS and no tokens; leave out --certificate, --key and --tokens"
        )
    if certificate is None or key is None or tokens is None:
        if not insecure:
            raise click.UsageError(
                "--certificate, --key and --tokens are needed; docs/remote.md shows how to make them. "
                "--insecure serves this machine alone without them"
            )
        offer, pair = Offer(devices, limits, None, processes), None
    else:
        offer = Offer(devices, limits, Tokens(read_tokens(tokens)), processes)
        pair = key.read_bytes(), certificate.read_bytes()
    _log()
    asyncio.run(_until_interrupted(lambda stop: serve(offer, listen, pair, stop)))


def _check_host(listen: str, insecure: bool) -> None:
    """Refuse an address that is none, or that others reach without TLS."""
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise DeviceError(f"--listen {listen} is no HOST:PORT with a port in 0..65535, such as {LISTEN}")
    if insecure and not is_loopback(host.strip("[]")):
        raise DeviceError(
            f"--insecure serves loopback addresses alone, and {listen} is none; give "
            "--certificate, --key and --tokens"
        )


def _log() -> None:
    """Print what the server notes, with the time."""
    logging.basicConfig(stream=sys.stdout, format="%(asctime)s  %(message)s", level=logging.WARNING)
    logging.getLogger("vdla").setLevel(logging.INFO)


async def _until_interrupted(serving: "Callable[[asyncio.Event], Any]") -> None:
    """Serve until SIGINT or SIGTERM, which end the server cleanly."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await serving(stop)
