"""What a loop's kind asks of LLVM, as metadata on its back edge. Requests only: the result stays that of a serial loop."""

from collections.abc import Mapping

from llvmlite import ir

from vdla.compiler.ir.affine import Interval
from vdla.compiler.ir.dependence import conflict
from vdla.compiler.ir.nodes import Buffer, For, LoopKind, Read, Write
from vdla.compiler.ir.rewrite import walk
from vdla.compiler.ir.types import DTYPES

Hint = tuple[str, ir.Constant] | tuple[str]
I1, I32, I64 = (ir.IntType(bits) for bits in (1, 32, 64))


def hints(loop: For, ranges: Mapping[str, Interval], vector_bytes: int) -> tuple[Hint, ...]:
    """Return the metadata of a loop: how far to unroll it, or how many lanes to use.

    A loop that accumulates floats gets none, since the vectoriser would then add them up in another order.
    """
    match loop.kind:
        case LoopKind.UNROLLED:
            return (("llvm.loop.unroll.full",),)
        case LoopKind.VECTORIZED if (count := lanes(loop, vector_bytes)) > 1 and conflict(loop, ranges, _holds_floats) is None:
            return ("llvm.loop.vectorize.enable", I1(1)), ("llvm.loop.vectorize.width", I32(count))
    return ()


def lanes(loop: For, vector_bytes: int) -> int:
    """Return how many of the widest elements that a loop touches fit a vector: a power of two, no more than there are iterations."""
    sizes = [DTYPES[part.buffer.dtype].bytes for part in walk(loop.body) if isinstance(part, (Read, Write))]
    return min(vector_bytes // max(sizes, default=vector_bytes), 1 << (loop.extent.bit_length() - 1))


def _holds_floats(buffer: Buffer) -> bool:
    return DTYPES[buffer.dtype].is_float


def annotate(branch: ir.Instruction, wanted: tuple[Hint, ...]) -> None:
    """Give the branch back to a loop's head its metadata, if any: a node that names itself first, so that no two loops share one."""
    if not wanted:
        return
    module = branch.parent.parent.module
    own = [module.add_metadata(list(hint)) for hint in wanted]
    node = module.add_metadata([I64(len(module.metadata)), *own])
    node.operands = (node, *own)
    branch.set_metadata("llvm.loop", node)
