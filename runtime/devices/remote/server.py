"""The server of devices: answers the requests of clients, and holds them to their limits."""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

import grpc

from vdla.hw.spec.errors import DeviceError, VdlaError
from vdla.hw.spec.showing import short
from vdla.runtime.devices.remote import messages
from vdla.runtime.devices.remote.channel import PING_MILLISECONDS
from vdla.runtime.devices.remote.messages import (
    METHOD,
    SERVICE,
    Check,
    Close,
    Copied,
    CopyIn,
    CopyOut,
    Done,
    Job,
    Open,
    Opened,
    Ran,
    Refusal,
    Reply,
    Request,
    Run,
)
from vdla.runtime.devices.remote.runners import Runners, Turns
from vdla.runtime.devices.remote.sessions import Limits, Session, Sessions
from vdla.runtime.devices.remote.tokens import Tokens

Certificate = tuple[bytes, bytes]
"""A private key, and the chain of certificates that belongs to it, in PEM."""

LOG = logging.getLogger(__name__)
BEARER = "Bearer "
SWEEP_SECONDS = 1.0
STREAMS_PER_CONNECTION = 8
CONNECTION_MILLISECONDS = 3_600_000
"""Age at which a connection is ended; clients connect again without noticing, unless they are too slow."""


@dataclass(frozen=True)
class Offer:
    """What a server offers, and to whom.

    Attributes:
        devices: names of devices; a client that names none gets the first.
        limits: of clients and runs.
        tokens: of clients; None: everybody on this machine is a client.
        places: runs at the same time.
    """

    devices: Sequence[str]
    limits: Limits
    tokens: Tokens | None
    places: int = 1


class Server:
    """Answers requests. All of it runs in one event loop, so requests do not change a session in parallel.

    Args:
        offer: devices, limits and tokens.
    """

    def __init__(self, offer: Offer) -> None:
        self._offer = offer
        self._sessions = Sessions(offer.limits)
        self._turns = Turns(offer.places, offer.limits.queue)
        self._runners = Runners(offer.places)

    async def call(self, data: bytes, context: "grpc.aio.ServicerContext[bytes, bytes]") -> bytes:
        """Return the reply to an encoded request."""
        client = await self._client(context)
        try:
            request: Request = messages.decoded(data, Request)
            reply = await self._reply(request, client)
        except VdlaError as error:
            LOG.info("%s  refused: %s", client or context.peer(), short(str(error).partition("\n")[0]))
            reply = messages.refusal(error)
        return messages.encoded(reply)

    async def _client(self, context: "grpc.aio.ServicerContext[bytes, bytes]") -> str | None:
        """Return the name of a client; end the request of anybody else."""
        tokens = self._offer.tokens
        if tokens is None:
            return None
        given = str(dict(context.invocation_metadata() or ()).get("authorization", ""))
        name = tokens.name_of(given.removeprefix(BEARER))
        if name is None:
            LOG.info("%s  refused: %s token", context.peer(), "unknown" if given else "no")
            await context.abort(
                grpc.StatusCode.UNAUTHENTICATED,
                f"the server {'does not know this token' if given else 'wants a token'}; put a line of the "
                "server's file of tokens into a file that VDLA_REMOTE_TOKEN names",
            )
        return name

    async def _reply(self, request: Request, client: str | None) -> Reply:
        if isinstance(request, Open):
            return self._open(request, client)
        session = self._sessions.find(request.session, client)
        with session.working():
            match request:
                case CopyIn():
                    session.write(request.address, request.data)
                    return Done()
                case CopyOut():
                    self._check_copy(request.size)
                    return Copied(session.read(request.address, request.size))
                case Run():
                    return await self._run(session, request)
                case Check():
                    return Done()
                case Close():
                    pass
                case _:
                    assert_never(request)
        self._sessions.close(request.session)
        return Done()

    def _open(self, request: Open, client: str | None) -> Opened:
        offer, limits = self._offer, self._offer.limits
        if request.version != messages.VERSION:
            raise DeviceError(
                f"the client's messages have version {request.version}, the server's {messages.VERSION}; "
                "install the same version of the kit"
            )
        device = request.device or offer.devices[0]
        if device not in offer.devices:
            raise DeviceError(f"the server offers no device {device!r}; it offers {', '.join(offer.devices)}")
        messages.target_of(request)
        name, session = self._sessions.open(client, device, request)
        LOG.info("%s  opens %s, %d bytes of DRAM", session.client, device, request.dram_bytes)
        return Opened(name, device, limits.copy_bytes, limits.queue_seconds + limits.run_seconds)

    def _check_copy(self, size: int) -> None:
        limit = self._offer.limits.copy_bytes
        if size > limit:
            raise DeviceError(f"a copy of {size} bytes exceeds the limit of {limit}; copy it in parts")

    async def _run(self, session: Session, request: Run) -> Ran | Refusal:
        limits, came = self._offer.limits, time.monotonic()
        async with self._turns.turn(session.client, limits.queue_seconds):
            began = time.monotonic()
            job = Job(session.request, session.device, session.path, request)
            try:
                reply = await self._runners.run(job, limits.run_seconds)
            except asyncio.CancelledError:
                LOG.info("%s  disconnects after %.3f s of a run", session.client, time.monotonic() - began)
                raise
        LOG.info(
            "%s  runs %d instructions on %s in %.3f s after %.3f s in the queue: %s",
            session.client,
            request.count,
            session.device,
            time.monotonic() - began,
            began - came,
            _outcome(reply),
        )
        return reply

    async def sweep(self) -> None:
        """Give up idle devices, for ever."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            for session in self._sessions.close_idle(self._offer.limits.idle_seconds):
                LOG.info("%s  %s is given up: no request for some time", session.client, session.device)

    def close(self) -> None:
        """End all processes."""
        self._runners.close()


def _outcome(reply: Ran | Refusal) -> str:
    """Return how a run ended, on one line."""
    if isinstance(reply, Refusal):
        return short(reply.message.partition("\n")[0])
    return "done" if reply.cycles is None else f"{reply.cycles} cycles"


def listen(offer: Offer, address: str, certificate: Certificate | None) -> "tuple[grpc.aio.Server, int]":
    """Return a gRPC server that is not started yet, and its port.

    Args:
        address: HOST:PORT; port 0: any that is free.
        certificate: None: no TLS.

    Raises:
        DeviceError: the address cannot be used, or key and certificate are not usable.
    """
    server = grpc.aio.server(
        options=(
            ("grpc.max_receive_message_length", offer.limits.message_bytes),
            ("grpc.max_concurrent_streams", STREAMS_PER_CONNECTION),
            ("grpc.max_connection_age_ms", CONNECTION_MILLISECONDS),
            ("grpc.http2.min_recv_ping_interval_without_data_ms", PING_MILLISECONDS // 2),
            ("grpc.keepalive_time_ms", PING_MILLISECONDS),
            ("grpc.keepalive_timeout_ms", PING_MILLISECONDS),
            ("grpc.so_reuseport", 0),
        )
    )
    try:
        if certificate is None:
            port = server.add_insecure_port(address)
        else:
            port = server.add_secure_port(address, grpc.ssl_server_credentials([certificate]))
    except (RuntimeError, ValueError) as error:
        raise DeviceError(
            f"{address} cannot be served: the address is not of this machine or in use, or key and "
            "certificate do not belong together; choose another --listen, or make both files again"
        ) from error
    return server, port


async def serve(offer: Offer, address: str, certificate: Certificate | None, stop: asyncio.Event) -> None:
    """Serve until `stop` is set; arguments and errors as in `listen`."""
    grpc_server, port = listen(offer, address, certificate)
    server = Server(offer)
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(server.call)
    grpc_server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler}),))
    await grpc_server.start()
    sweeping = asyncio.create_task(server.sweep())
    LOG.info("serving %s on %s:%d", ", ".join(offer.devices), address.rpartition(":")[0], port)
    try:
        await stop.wait()
    finally:
        sweeping.cancel()
        await grpc_server.stop(grace=0)
        server.close()
        LOG.info("ended")
