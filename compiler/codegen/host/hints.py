"""What a loop's kind asks of LLVM, as metadata on its back edge. Requests only: the result stays that of a
serial loop."""

from collections.abc import Mapping

from llvmlite import ir

from vdla.compiler.ir.affine import Interval, affine
from vdla.compiler.ir.dependence import conflict
from vdla.compiler.ir.nodes import Alloc, Binary, Expr, For, LoopKind, Read, Var, Write
from vdla.compiler.ir.rewrite import Node, has_reads, variables, walk
from vdla.compiler.ir.types import DTYPES

Hint = tuple[str, ir.Constant] | tuple[str]
LARGEST_UNROLLED = 10_000  # nodes; LLVM takes seconds for more, and gives up soon after
I1, I32, I64 = (ir.IntType(bits) for bits in (1, 32, 64))
UNROLL_LATER = ("llvm.loop.unroll.disable",)  # of a short loop, unrolling would leave nothing to vectorise


def hints(loop: For, ranges: Mapping[str, Interval], vector_bytes: int) -> tuple[Hint, ...]:
    """Return the metadata of a loop: to unroll it, unless that makes too much code, or how many lanes to use,
    where that is sure to succeed.

    LLVM complains on standard error about a loop that it is asked to vectorise and cannot; the others are
    left to its own judgement.
    """
    match loop.kind:
        case LoopKind.UNROLLED if unrolled_size(loop) <= LARGEST_UNROLLED:
            return (("llvm.loop.unroll.full",),)
        case LoopKind.VECTORIZED if (count := lanes(loop, vector_bytes)) > 1 and can_vectorize(loop, ranges):
            return (
                ("llvm.loop.vectorize.enable", I1(1)),
                ("llvm.loop.vectorize.width", I32(count)),
                UNROLL_LATER,
            )
    return ()


def can_vectorize(loop: For, ranges: Mapping[str, Interval]) -> bool:
    """Whether there is nothing inside but steps of one stride, whose iterations are independent, or
    accumulate whole numbers in one place.

    Floats must not be accumulated: the vectoriser would add them up in another order.
    """
    inside = list(walk(loop.body))
    if any(isinstance(part, (For, Alloc)) for part in inside):
        return False
    accesses = [part for part in inside if isinstance(part, (Read, Write))]
    sums = {part.buffer for part in inside if isinstance(part, Write) and _accumulates(part, loop.var)}
    return (
        all(_has_stride(index, loop.var) for part in accesses for index in part.indices)
        and all(
            part.indices == other.indices
            for part in accesses
            for other in accesses
            if part.buffer == other.buffer and part.buffer in sums
        )
        and conflict(loop, ranges, lambda buffer: buffer not in sums) is None
    )


def _has_stride(index: Expr, var: Var) -> bool:
    return not has_reads(index) and all(
        atom == var or var.name not in variables(atom) for atom, _ in affine(index).terms
    )


def _accumulates(write: Write, var: Var) -> bool:
    """Whether a statement is `B[p] = B[p] op x` of whole numbers, with one place p for all of the loop."""
    match write.value:
        case Binary("+" | "min" | "max", Read(buffer, indices), other):
            fixed = not any(var.name in variables(index) for index in indices)
            alone = all(part.buffer != buffer for part in walk(other) if isinstance(part, Read))
            return (
                (buffer, indices) == (write.buffer, write.indices)
                and fixed
                and alone
                and not DTYPES[buffer.dtype].is_float
            )
    return False


def unrolled_size(node: Node) -> int:
    """Return the number of nodes of a statement with its unrolled loops written out."""
    copies = node.extent if isinstance(node, For) and node.kind is LoopKind.UNROLLED else 1
    return copies * (1 + sum(map(unrolled_size, node.below())))


def lanes(loop: For, vector_bytes: int) -> int:
    """Return how many of the widest elements that a loop touches fit a vector: a power of two, no more than
    there are iterations."""
    sizes = [DTYPES[part.buffer.dtype].bytes for part in walk(loop.body) if isinstance(part, (Read, Write))]
    return min(vector_bytes // max(sizes, default=vector_bytes), 1 << (loop.extent.bit_length() - 1))


def annotate(branch: ir.Instruction, wanted: tuple[Hint, ...]) -> None:
    """Give the branch back to a loop's head its metadata, if any: a node that names itself first, so that no
    two loops share one."""
    if not wanted:
        return
    module = branch.parent.parent.module
    own = [module.add_metadata(list(hint)) for hint in wanted]
    node = module.add_metadata([I64(len(module.metadata)), *own])
    node.operands = (node, *own)
    branch.set_metadata("llvm.loop", node)
