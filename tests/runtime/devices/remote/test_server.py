"""The server: addresses that cannot be served. `test_remote.py` tests requests over the wire."""

import socket

import pytest

from tests.runtime.devices.remote.serving import awaited
from vdla.hw.spec.errors import DeviceError
from vdla.runtime.devices.remote.server import Offer, listen
from vdla.runtime.devices.remote.sessions import Limits

OFFER = Offer(("cycle",), Limits(), None)


async def listened(address: str, certificate=None) -> int:
    """Return the port of a server that is not started."""
    return listen(OFFER, address, certificate)[1]


def test_port_0_is_any_that_is_free():
    assert awaited(listened("127.0.0.1:0")) > 0


def test_a_port_in_use_is_refused():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(DeviceError, match=rf"^{address} cannot be served: .*; choose another --listen"):
            awaited(listened(address))
