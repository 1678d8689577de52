"""Scheduling steps shared by several operators."""

from collections.abc import Iterable, Sequence

from vdla.compiler.codegen.intrinsics import Accelerator
from vdla.compiler.ir.calls import Intrinsic
from vdla.compiler.ir.nodes import IrError, Scope
from vdla.compiler.te.operators.narrowing import Narrowed
from vdla.compiler.te.schedule import Schedule, StageHandle
from vdla.compiler.te.tensor import Tensor
from vdla.hw.spec.vocabulary import Extension


def tensorize(schedule: Schedule, intrinsics: Iterable[tuple[Tensor, Sequence[Intrinsic]]]) -> None:
    """Replace the last two loops over each tensor, which iterate over an element, by an intrinsic."""
    for tensor, candidates in intrinsics:
        schedule[tensor].tensorize(schedule[tensor].axis[-2], candidates)


def narrow(
    schedule: Schedule, narrowed: Narrowed, place: str, parameters_at: str | None, intrinsics: Accelerator
) -> None:
    """Schedule a narrowing: ALU passes at loop `place`, and loads of parameters at loop `parameters_at`.

    Args:
        parameters_at: loop of the result; None: all parameters are loaded at the start of the program.

    Raises:
        IrError: the narrowing requantises, and the configuration lacks the extension REQUANTISE.
    """
    for tensor in reversed(narrowed.passes):
        schedule[tensor].set_scope(Scope.ACCUMULATOR)
        schedule[tensor].compute_at(narrowed.out, place)
    tensorize(schedule, [(tensor, intrinsics.alu) for tensor in narrowed.passes])
    if narrowed.parameters is not None:
        if not intrinsics.config.has(Extension.REQUANTISE):
            raise IrError(
                f"requantisation by parameters needs the extension {Extension.REQUANTISE}, which "
                f"{intrinsics.config.name} "
                "has switched off; switch it on, or narrow by a Shift"
            )
        kept = schedule.cache_read(narrowed.parameters, Scope.PARAMETERS, [narrowed.out], name="PL")
        if parameters_at is not None:
            schedule[kept].compute_at(narrowed.out, parameters_at)
        tensorize(schedule, [(kept, intrinsics.load_parameters)])
    tensorize(schedule, [(narrowed.out, intrinsics.store)])


def virtual_threads(handle: StageHandle, loop: str, threads: int) -> tuple[str, list[str]]:
    """Split virtual threads off a loop; return the outer loop, and the loop over threads unless `threads` is
    1."""
    if threads == 1:
        return loop, []
    outer, thread = handle.split(loop, threads)
    handle.vthread(thread)
    return outer, [thread]
