"""gRPC channels: the connection of a client to a server, with deadlines and named errors."""

from pathlib import Path
from typing import TYPE_CHECKING

from vdla.hw.spec.errors import DeviceError
from vdla.hw.spec.extras import require_package
from vdla.hw.spec.showing import short
from vdla.runtime.device import DeviceLostError
from vdla.runtime.devices.remote.address import CA_FILE, TOKEN_FILE, Address
from vdla.runtime.devices.remote.messages import (
    METHOD,
    SERVICE,
    Refusal,
    Reply,
    Request,
    decoded,
    encoded,
    error_of,
)
from vdla.runtime.devices.remote.tokens import read_tokens

if TYPE_CHECKING:
    import grpc

PING_MILLISECONDS = 20_000
OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    (
        "grpc.use_local_subchannel_pool",
        1,
    ),  # a connection for each device: they do not share a limit of streams
    ("grpc.keepalive_time_ms", PING_MILLISECONDS),
    ("grpc.keepalive_timeout_ms", PING_MILLISECONDS),
)
REASON_CHARACTERS = 300


class Channel:
    """A connection to a server.

    Args:
        address: of a device.

    Raises:
        DeviceError: a file of the address cannot be read, or holds something else.
        ToolError: gRPC is not installed.
    """

    def __init__(self, address: Address) -> None:
        require_package("grpc", "a remote device")
        import grpc

        self._address = address
        if address.insecure:
            self._channel = grpc.insecure_channel(address.server, OPTIONS)
        else:
            self._channel = grpc.secure_channel(address.server, _credentials(address), OPTIONS)
        path = f"/{SERVICE}/{METHOD}"
        self._call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(path)

    def ask(self, request: Request, seconds: float) -> Reply:
        """Return the reply to a request.

        Args:
            seconds: after which the request fails.

        Raises:
            VdlaError: that the server replies with.
            DeviceError: the server does not accept the client, or the size of the request.
            DeviceLostError: there is no reply.
        """
        import grpc

        try:
            data = self._call(encoded(request), timeout=seconds)
        except grpc.RpcError as error:
            raise _failure(self._address, error, seconds) from None
        except ValueError as error:
            raise DeviceLostError(f"{self._address}: the connection is closed: make a new device") from error
        reply: Reply = decoded(data, Reply)
        if isinstance(reply, Refusal):
            raise error_of(reply)
        return reply

    def close(self) -> None:
        """End the connection."""
        self._channel.close()


def _credentials(address: Address) -> "grpc.ChannelCredentials":
    """Return what a client trusts, and its token."""
    import grpc

    trusted = grpc.ssl_channel_credentials(None if address.ca is None else _contents(address.ca))
    if address.token is None:
        return trusted
    try:
        tokens = read_tokens(address.token)
    except OSError as error:
        raise _unreadable(address.token, error) from error
    if len(tokens) > 1:
        raise DeviceError(f"{address.token} has {len(tokens)} tokens; a client's file has its own line alone")
    return grpc.composite_channel_credentials(trusted, grpc.access_token_call_credentials(tokens[0]))


def _contents(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> DeviceError:
    return DeviceError(f"{path} cannot be read: {error.strerror}; {CA_FILE} and {TOKEN_FILE} name such files")


def _failure(address: Address, error: "grpc.RpcError", seconds: float) -> DeviceError:
    """Return the error for a request that has no reply."""
    import grpc

    code, reason = error.code(), short(error.details() or "", REASON_CHARACTERS)
    match code:
        case grpc.StatusCode.UNAUTHENTICATED:
            return DeviceError(f"{address}: {reason}")
        case grpc.StatusCode.RESOURCE_EXHAUSTED:
            return DeviceError(f"{address}: {reason}; run again later, or copy less at a time")
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return DeviceLostError(
                f"{address}: no reply within {seconds:g} seconds; check server and network"
            )
    return DeviceLostError(
        f"{address}: the server cannot be reached, or has ended ({code.name}: {reason}); check that vdla "
        f"serve runs there, and that {CA_FILE} names the file of its certificate"
    )
