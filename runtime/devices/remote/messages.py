"""Messages between a client and a server of devices, as MessagePack; they hold data, and nothing to execute.

Each request has one reply: the reply that its docstring names, or a `Refusal`.
"""

from dataclasses import asdict
from typing import IO, Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from vdla.hw.spec import errors
from vdla.hw.spec.config import AcceleratorConfig, parameters
from vdla.hw.spec.errors import ConfigError, DeviceError, ProgramError, VdlaError
from vdla.hw.spec.sdram import memory_of
from vdla.hw.spec.target import Target
from vdla.runtime.device import DeviceLostError
from vdla.sim.verify.verifier import VerificationError

LENGTH_BYTES = 4
SERVICE, METHOD = "vdla.Devices", "Call"
VERSION = 1
HEAD_BYTES = 1 << 12
"""Room in a message for everything but the bytes that it copies."""

Natural = Annotated[int, Meta(ge=0, lt=1 << 62)]
Short = Annotated[str, Meta(max_length=200)]
Parameter: TypeAlias = int | Short | tuple[Short, ...]


class Message(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Base of all messages."""


class Open(Message, frozen=True):
    """Make a device; the reply is `Opened`.

    Attributes:
        version: of these messages.
        device: a name that the server offers; empty: its first.
        config: every parameter of the configuration but its name.
        digest: `Target.timing_digest` of configuration and memory.
    """

    version: int
    device: Short
    config: dict[Short, Parameter]
    memory: dict[Short, Natural]
    digest: Short
    dram_bytes: Natural


class Opened(Message, frozen=True):
    """A device was created.

    Attributes:
        session: names it in requests; a secret of its client.
        device: its name.
        copy_bytes: the most that a `CopyIn` or `CopyOut` may copy.
        run_seconds: the most that a run takes, waiting included.
    """

    session: str
    device: str
    copy_bytes: int
    run_seconds: float


class CopyIn(Message, frozen=True):
    """Write to DRAM; the reply is `Done`."""

    session: Short
    address: Natural
    data: bytes


class CopyOut(Message, frozen=True):
    """Read DRAM; the reply is `Copied`."""

    session: Short
    address: Natural
    size: Natural


class Copied(Message, frozen=True):
    """Bytes of DRAM."""

    data: bytes


class Run(Message, frozen=True):
    """Verify and run a stream; arguments as in `Device.run`, and the reply is `Ran`."""

    session: Short
    address: int
    count: int
    cycle_limit: Natural | None = None


class Ran(Message, frozen=True):
    """A run has ended; attributes as in `RunResult`."""

    cycles: int | None
    counters: dict[str, int]


class Check(Message, frozen=True):
    """Ask whether a device is still there; the reply is `Done`."""

    session: Short


class Close(Message, frozen=True):
    """Give a device back; the reply is `Done`."""

    session: Short


class Done(Message, frozen=True):
    """A request was carried out."""


class Refusal(Message, frozen=True):
    """A request was refused, or failed.

    Attributes:
        kind: the error's class, by its name in `KINDS`.
        message: of the error.
        index: of a `ProgramError`.
    """

    kind: str
    message: str
    index: int | None = None


Request: TypeAlias = Open | CopyIn | CopyOut | Run | Check | Close
Reply: TypeAlias = Opened | Copied | Ran | Done | Refusal

KINDS: dict[str, type[VdlaError]] = {
    kind.__name__: kind
    for kind in (
        *(each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, VdlaError)),
        DeviceLostError,
        VerificationError,
    )
}
"""Errors that are the same class at both ends."""

encoded = msgspec.msgpack.encode


def decoded(data: bytes, kind: Any) -> Any:
    """Return the message that bytes hold; `kind` may be a union of kinds.

    Raises:
        DeviceError: the bytes hold no such message.
    """
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, ConfigError) as error:
        raise DeviceError(
            f"a message of {len(data)} bytes is damaged: {error}; client and server need the same version of "
            "the kit"
        ) from error


def refusal(error: VdlaError) -> Refusal:
    """Return the reply that stands for an error; classes that only one end knows become a `DeviceError`."""
    kind = type(error).__name__ if type(error).__name__ in KINDS else DeviceError.__name__
    return Refusal(kind, str(error), getattr(error, "index", None))


def error_of(reply: Refusal) -> VdlaError:
    """Return the error that a reply stands for."""
    kind = KINDS.get(reply.kind, DeviceError)
    return kind(reply.message, reply.index) if issubclass(kind, ProgramError) else kind(reply.message)


def opening(device: str, target: Target, dram_bytes: int) -> Open:
    """Return the request for a device of a target."""
    config: dict[str, Any] = parameters(target.config)
    return Open(VERSION, device, config, asdict(target.memory), target.timing_digest, dram_bytes)


def target_of(request: Open) -> Target:
    """Return the target that a client wants.

    Raises:
        ConfigError: a parameter is unknown or not allowed.
        DeviceError: client and server do not mean the same by these parameters.
    """
    values = {"name": "remote", **request.config}
    target = Target(AcceleratorConfig().with_changes(**values), memory_of(request.memory))
    if target.timing_digest != request.digest:
        raise DeviceError(
            f"the configuration's digest is {request.digest[:12]} at the client and "
            f"{target.timing_digest[:12]} at the server; both need the same version of the kit"
        )
    return target


class Job(msgspec.Struct, frozen=True):
    """What a server hands to one of its processes.

    Attributes:
        request: created the device.
        device: its name.
        dram: path of its DRAM.
        run: what to run on it.
    """

    request: Open
    device: str
    dram: str
    run: Run


def write_part(file: IO[bytes], part: bytes) -> None:
    """Write bytes with their length in front."""
    file.write(len(part).to_bytes(LENGTH_BYTES, "little") + part)
    file.flush()


def read_part(file: IO[bytes]) -> bytes:
    """Return the next bytes that `write_part` wrote.

    Raises:
        EOFError: the other process has ended.
    """
    head = file.read(LENGTH_BYTES)
    size = int.from_bytes(head, "little")
    part = file.read(size)
    if len(head) < LENGTH_BYTES or len(part) < size:
        raise EOFError("the other process has ended")
    return part
