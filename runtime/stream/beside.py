"""Which LOADs of accumulators may run beside the instruction before them, which works in the other half."""

import numpy as np
from numpy.typing import NDArray

from vdla.hw.spec import isa
from vdla.hw.spec.footprint import stepping_forms

STEPPING = tuple(int(form.opcode) for form in stepping_forms())
BEFORE_ALL = -1


def loads_beside(
    opcodes: NDArray[np.uint8], halves: NDArray[np.int64], pushes: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return bool[n]: the LOADs of ACC that push no token and write no half of it in which the last GEMM, ALU
    or DEPTHWISE before them works; see `vdla.hw.spec.isa.Load`.

    Args:
        opcodes: uint8[n], in the order of the stream.
        halves: int64[n], a bit for each half of ACC that an instruction of the compute unit touches.
        pushes: bool[n], whether it pushes a token.
    """
    stepping = np.isin(opcodes, STEPPING)
    latest = np.maximum.accumulate(np.where(stepping, np.arange(len(opcodes)), BEFORE_ALL))
    worked = np.where(latest > BEFORE_ALL, halves[latest], 0)
    found: NDArray[np.bool_] = (opcodes == isa.Opcode.LOAD) & (halves > 0) & ~pushes & (halves & worked == 0)
    return found
