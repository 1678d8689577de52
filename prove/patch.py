"""Changed bytes in the streams of a module, for experiments with broken streams."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from vdla.hw.spec.errors import FileFormatError
from vdla.hw.spec.limits import STREAM_BYTES, limit_of, read_at_most
from vdla.hw.spec.showing import short
from vdla.runtime.module.plan import Plan
from vdla.runtime.stream.builder import Stream

Byte = Annotated[int, Meta(ge=0, le=255)]
Place = Annotated[int, Meta(ge=0, lt=1 << 62)]
FORM = "a patch is a JSON list of [launch, byte offset, new value], as in [[0, 17, 255]]"


@dataclass(frozen=True, slots=True)
class Patch:
    """A changed byte.

    Attributes:
        launch: number of the launch, from 0, in the order of the steps.
        offset: place of the byte in the launch's instructions, which its micro-ops follow.
        value: the new byte.
    """

    launch: int
    offset: int
    value: int


def read_patches(path: Path) -> tuple[Patch, ...]:
    """Return the patches in a JSON file.

    Raises:
        FileFormatError: it is not a list of [launch, byte offset, new value].
        OSError: it cannot be read.
    """
    data = read_at_most(path, limit_of(STREAM_BYTES), FileFormatError)
    try:
        values = msgspec.convert(json.loads(data), list[tuple[Place, Place, Byte]])
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path} is not a stream patch: {short(str(error))}; {FORM}") from error
    return tuple(Patch(*value) for value in values)


def with_patches(plan: Plan, patches: Sequence[Patch]) -> Plan:
    """Return a plan with changed bytes in its streams.

    Raises:
        FileFormatError: there is no such launch, or its stream has no such byte.
    """
    streams = dict(plan.streams)
    for patch in patches:
        if patch.launch >= len(plan.launches):
            raise FileFormatError(
                f"the patch changes launch {patch.launch}, and {plan.name} has {len(plan.launches)} "
                "launches; they are numbered from 0"
            )
        name = plan.launches[patch.launch].stream
        streams[name] = _patched(streams[name], patch)
    return replace(plan, streams=streams)


def _patched(stream: Stream, patch: Patch) -> Stream:
    instruction_bytes, uop_bytes = stream.words.nbytes, stream.uops.nbytes
    if patch.offset >= instruction_bytes + uop_bytes:
        raise FileFormatError(
            f"the patch changes byte {patch.offset} of launch {patch.launch}, which has {instruction_bytes} "
            f"bytes of instructions and {uop_bytes} bytes of micro-ops after them; give a lower offset"
        )
    if patch.offset < instruction_bytes:
        return replace(stream, words=_with_byte(stream.words, patch.offset, patch.value))
    return replace(stream, uops=_with_byte(stream.uops, patch.offset - instruction_bytes, patch.value))


def _with_byte(array: np.ndarray, offset: int, value: int) -> np.ndarray:
    changed = np.array(array, order="C")
    changed.reshape(-1).view(np.uint8)[offset] = value
    return changed
