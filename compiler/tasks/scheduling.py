"""Steps that the schedules of several operators share."""

from collections.abc import Iterable, Sequence

from vdla.compiler.codegen.intrinsics import Accelerator
from vdla.compiler.ir.nodes import Intrinsic, IrError, Scope
from vdla.compiler.te.operators.narrowing import Narrowed
from vdla.compiler.te.schedule import Schedule, StageHandle
from vdla.compiler.te.tensor import Tensor
from vdla.hw.spec.vocabulary import Extension


def tensorize(schedule: Schedule, intrinsics: Iterable[tuple[Tensor, Sequence[Intrinsic]]]) -> None:
    """Put an intrinsic in place of the last two loops over each tensor, those of an element."""
    for tensor, those in intrinsics:
        schedule[tensor].tensorize(schedule[tensor].axis[-2], those)


def narrow(
    schedule: Schedule, narrowed: Narrowed, place: str, parameters_at: str | None, intrinsics: Accelerator
) -> None:
    """Let passes be carried out at `place`, and parameters be loaded at their loop, or all of them at
    first."""
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
    """Make virtual threads of a loop; return what is left of it, and the loop over threads if there is more
    than one."""
    if threads == 1:
        return loop, []
    outer, thread = handle.split(loop, threads)
    handle.vthread(thread)
    return outer, [thread]
