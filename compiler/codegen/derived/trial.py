"""A trial: a program is lowered, its stream verified and simulated. What is refused is illegal, with the
reason."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vdla.compiler.codegen.choose import cycles_of
from vdla.compiler.codegen.stream import compile_stream
from vdla.compiler.ir.nodes import Buffer, Func
from vdla.compiler.ir.types import DTYPES
from vdla.hw.spec.errors import VdlaError
from vdla.hw.spec.target import Target
from vdla.runtime.stream.builder import UOP_TENSOR, Stream

ALIGNMENT = 4096  # bytes, of tensors in DRAM


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of a point.

    Attributes:
        cycles: of its program alone; None where it is illegal.
        reason: why it is illegal, in one line; "" where it is not.
    """

    cycles: int | None
    reason: str = ""


def tried(program: Callable[[], Func], target: Target) -> Trial:
    """Lower, verify and simulate what `program` returns; its errors are the trial's reason."""
    try:
        func = program()
        stream = compile_stream(func, target.config)
        verify_stream(stream, {param.name: bytes_of(param) for param in func.params})
        return Trial(cycles_of(stream, target.memory))
    except VdlaError as error:
        return Trial(None, str(error).splitlines()[0])


def bytes_of(buffer: Buffer) -> int:
    """Return the bytes of a tensor in DRAM."""
    return buffer.size * DTYPES[buffer.dtype].bytes


def verify_stream(stream: Stream, sizes: dict[str, int]) -> None:
    """Verify a stream.

    Args:
        sizes: bytes of its tensors.

    Raises:
        VdlaError: it is unsafe.
    """
    from vdla.sim.decoded import decode_stream
    from vdla.sim.verify.verifier import verify  # numba: what is only derived need not wait for it

    addresses, end = {}, ALIGNMENT
    for name, size in {**sizes, UOP_TENSOR: stream.uops.nbytes}.items():
        addresses[name] = end
        end += -(-size // ALIGNMENT) * ALIGNMENT
    dram = np.zeros(end, np.uint8)
    uops = stream.uops.view(np.uint8)
    dram[addresses[UOP_TENSOR] : addresses[UOP_TENSOR] + uops.size] = uops
    verify(decode_stream(stream.relocated(addresses), stream.config), dram)
