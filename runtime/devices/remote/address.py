"""Addresses of remote devices: `remote://HOST:PORT[/DEVICE][?ca=FILE&token=FILE]`, or `?insecure`."""

import os
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, urlsplit

from vdla.hw.spec.errors import DeviceError
from vdla.hw.spec.showing import shown

SCHEME = "remote"
PREFIX = f"{SCHEME}://"
CA_FILE, TOKEN_FILE = "VDLA_REMOTE_CA", "VDLA_REMOTE_TOKEN"
KEYS = ("ca", "token", "insecure")
FORM = f"{PREFIX}HOST:PORT, {PREFIX}HOST:PORT/DEVICE?ca=FILE&token=FILE or {PREFIX}localhost:PORT?insecure"


@dataclass(frozen=True, slots=True)
class Address:
    """A device that a server offers.

    Attributes:
        host, port: of the server.
        device: its name there; empty: the first that the server offers.
        ca: file of the certificates that the client trusts; None: the system's.
        token: file of the client's token; None: no token is sent.
        insecure: connect without TLS, which only an address of this machine may.
    """

    host: str
    port: int
    device: str = ""
    ca: Path | None = None
    token: Path | None = None
    insecure: bool = False

    @property
    def server(self) -> str:
        """HOST:PORT."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"{PREFIX}{self.server}{self.device and f'/{self.device}'}"


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, by its name or address alone."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def address_of(text: str) -> Address:
    """Return the address in a text. CA_FILE and TOKEN_FILE of the environment name the files that it leaves
    out.

    Raises:
        DeviceError: the text is no such address, or a remote host is to be reached without TLS.
    """
    parts, host, port = _split(text)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := sorted(set(options) - set(KEYS)):
        raise DeviceError(
            f"device {shown(text)} has the unknown option {unknown[0]}; there are {', '.join(KEYS)}"
        )
    insecure = "insecure" in options
    if insecure and not is_loopback(host):
        raise DeviceError(
            f"device {shown(text)} is insecure, which only loopback addresses may be, such as 127.0.0.1; "
            "leave the option out, and the connection has TLS"
        )
    ca, token = (
        Path(name) if not insecure and (name := options.get(key) or os.environ.get(variable)) else None
        for key, variable in (("ca", CA_FILE), ("token", TOKEN_FILE))
    )
    return Address(host, port, parts.path.strip("/"), ca, token, insecure)


def _split(text: str) -> tuple[SplitResult, str, int]:
    """Return the parts of an address, with its host and port."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise DeviceError(f"device {shown(text)} is no address: {error}; write {FORM}") from error
    if parts.scheme != SCHEME or not host or not port or parts.fragment or parts.username is not None:
        raise DeviceError(f"device {shown(text)} is no address of a remote device; write {FORM}")
    return parts, host, port
