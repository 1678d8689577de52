"""Schedules: the loops that execute a tensor expression, their order, memories and execution units.

A primitive changes the loops, never the result. A primitive that cannot be applied raises `ScheduleError`
with the reason and the current loops.

Source: Halide, PLDI 2013, and TVM, OSDI 2018, sections 4.1 to 4.4.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from vdla.compiler.ir.calls import Intrinsic
from vdla.compiler.ir.nodes import Buffer, Expr, Func, IrError, LoopKind, Scope, Var
from vdla.compiler.ir.rewrite import Node, rewrite, substitute
from vdla.compiler.ir.types import INDEX
from vdla.compiler.te.lower import lower
from vdla.compiler.te.stage import Fuse, Split, Stage
from vdla.compiler.te.tensor import Axis, Element, Reduce, Tensor


class ScheduleError(IrError):
    """A schedule primitive cannot be applied."""


class Schedule:
    """The stages of a computation, producers first.

    Args:
        outputs: the tensors to compute.
    """

    def __init__(self, *outputs: Tensor) -> None:
        self.outputs = list(outputs)
        self.stages: list[Stage] = []
        self._names: set[str] = set()
        for tensor in outputs:
            self._add(tensor)

    def _add(self, tensor: Tensor) -> None:
        for source in tensor.inputs:
            self._add(source)
        if tensor.value is not None and all(stage.name != tensor.name for stage in self.stages):
            self.stages.append(Stage(self._with_unique_axes(tensor, tensor.value)))

    def _with_unique_axes(self, tensor: Tensor, value: Expr) -> Tensor:
        """Return `tensor` with axis names that no other stage uses. Tensors are identified by name."""
        names = {}
        for axis in (*tensor.axes, *tensor.reduce_axes):
            names[axis.name] = self._unique_name(axis.name, tensor.name)
        if all(old == new for old, new in names.items()):
            return tensor
        renamed: dict[str, Expr] = {old: Var(new) for old, new in names.items()}
        axes = tuple(replace(axis, name=names[axis.name]) for axis in tensor.axes)
        if isinstance(value, Reduce):
            combined = tuple(replace(axis, name=names[axis.name]) for axis in value.axes)
            value = replace(value, value=substitute(value.value, renamed), axes=combined)
        else:
            value = substitute(value, renamed)
        return Tensor(tensor.buffer, axes, value)

    def _unique_name(self, name: str, owner: str) -> str:
        """Return an unused name for a loop."""
        number, candidate = 1, name
        while candidate in self._names:
            candidate = f"{owner}_{name}" if number == 1 else f"{owner}_{name}{number}"
            number += 1
        self._names.add(candidate)
        return candidate

    def __getitem__(self, tensor: Tensor) -> "StageHandle":
        """Return the stage of `tensor`, to be scheduled."""
        return StageHandle(self, self.stage(tensor))

    def stage(self, tensor: Tensor) -> Stage:
        """Return the stage of `tensor`.

        Raises:
            ScheduleError: the tensor has no stage: it is a placeholder, was inlined, or belongs to another
                schedule.
        """
        for stage in self.stages:
            if stage.name == tensor.name:
                return stage
        raise ScheduleError(
            f"{tensor.name} is not a stage of this schedule; there are "
            f"{', '.join(stage.name for stage in self.stages)}"
        )

    def consumers(self, tensor: Tensor) -> list[Stage]:
        """Return the stages that read `tensor`."""
        return [
            stage
            for stage in self.stages
            if any(source.name == tensor.name for source in stage.tensor.inputs)
        ]

    def lower(self, name: str = "main", *, verified: bool = True) -> Func:
        """Return the loop program of the schedule in its current state."""
        return lower(self.stages, self.outputs, name, verified=verified)

    # Caches

    def cache_read(
        self,
        tensor: Tensor,
        scope: Scope | str,
        readers: Sequence[Tensor],
        name: str | None = None,
        *,
        whole: int = 0,
    ) -> Tensor:
        """Copy `tensor` into a buffer in `scope` and redirect `readers` to it; return the copy.

        In the loop where it is computed, the copy precedes every stage that does not produce `tensor`.

        `C[i] = A[i] * 2` becomes `A_L[i] = A[i]` and `C[i] = A_L[i] * 2`.

        Args:
            name: name of the copy; None: the name of `tensor` with Ls appended.
            whole: number of trailing axes that are always copied in full, even if only some elements are
                read.

        Raises:
            ScheduleError: a reader does not read `tensor`, or `name` is taken.
        """
        label = self._cache_name(tensor, name)
        axes = tuple(
            Axis(self._unique_name(_letter(number), label), INDEX, extent=extent)
            for number, extent in enumerate(tensor.shape)
        )
        copy = Tensor(
            Buffer(label, tensor.shape, tensor.dtype), axes, tensor[tuple(axis.var for axis in axes)]
        )
        place = next((number for number, stage in enumerate(self.stages, 1) if stage.name == tensor.name), 0)
        for reader in readers:
            stage = self.stage(reader)
            if all(source.name != tensor.name for source in stage.tensor.inputs):
                raise ScheduleError(f"cache_read: {reader.name} does not read {tensor.name}")
            self._change_value(
                stage,
                _with_elements(stage.value, tensor, lambda read: Element(copy.buffer, read.indices, copy)),
            )
        self.stages.insert(place, Stage(copy, Scope(scope), whole=whole))
        return copy

    def cache_write(self, tensor: Tensor, scope: Scope | str, name: str | None = None) -> Tensor:
        """Compute `tensor` in a buffer in `scope` and copy it out; return the tensor of the buffer.

        `C[i] = A[i] * 2` becomes `C_L[i] = A[i] * 2` and `C[i] = C_L[i]`.

        Raises:
            ScheduleError: the stage has been scheduled already, another stage is attached to it, or `name` is
                taken.
        """
        stage = self.stage(tensor)
        handle = StageHandle(self, stage)
        if stage.relations or stage.attach or stage.tensorized:
            raise handle._refuse(
                "cache_write", "its loops have been scheduled already; write it to a cache first"
            )
        handle._refuse_if_attached("cache_write")

        output = stage.tensor
        self._names -= {axis.name for axis in output.reduce_axes}  # the cache takes the reduction loops over
        inner = self._with_unique_axes(
            Tensor(
                Buffer(self._cache_name(tensor, name), output.shape, output.dtype), output.axes, output.value
            ),
            stage.value,
        )
        stage.tensor = Tensor(output.buffer, output.axes, inner[tuple(axis.var for axis in output.axes)])
        stage.__post_init__()
        self.stages.insert(self.stages.index(stage), Stage(inner, Scope(scope)))
        return inner

    def _cache_name(self, tensor: Tensor, name: str | None) -> str:
        """Return the requested name of a cache of `tensor`; by default, the name of `tensor` with Ls
        appended."""
        taken = {stage.name for stage in self.stages} | {
            source.name for stage in self.stages for source in stage.tensor.inputs
        }
        if name in taken:
            raise ScheduleError(
                f"a cache of {tensor.name} cannot be called {name}: a tensor of that name exists already"
            )
        while name is None or name in taken:
            name = f"{name or tensor.name}L"
        return name

    def _change_value(self, stage: Stage, value: Expr) -> None:
        stage.tensor = Tensor(stage.tensor.buffer, stage.tensor.axes, value)

    def misplaced_reader(self) -> str | None:
        """Name an attached stage with a reader that is computed outside the loop of attachment, or None."""
        return next(
            (
                f"{reader.name} reads {stage.name} and would not be computed inside the same loop"
                for stage in self.stages
                if stage.attach is not None
                for reader in self.consumers(stage.tensor)
                if not _is_inside_loop(reader, *stage.attach)
            ),
            None,
        )


def _letter(number: int) -> str:
    return "ijlmnpqr"[number] if number < 8 else f"i{number}"


def _with_elements(value: Expr, tensor: Tensor, change: Callable[[Element], Expr]) -> Expr:
    """Return `value` with each element of `tensor` replaced by the result of `change`."""

    def at(part: Node) -> Node | None:
        return change(part) if isinstance(part, Element) and part.tensor.name == tensor.name else None

    return rewrite(value, at)


def _loop_lines(stage: Stage) -> Iterator[str]:
    extents, reducing = stage.extents(), stage.reducing()
    for depth, leaf in enumerate(stage.leaves):
        note = "  # combines" if reducing[leaf] else ""
        yield (
            f"{'    ' * depth}for {leaf} in "
            f"{stage.kinds.get(leaf, LoopKind.SERIAL).value}({extents[leaf]}):{note}"
        )
    yield f"{'    ' * len(stage.leaves)}{stage.name}[...] = ..."


class StageHandle:
    """The scheduling primitives of a stage. Loops are given and returned by name.

    Every primitive raises `ScheduleError` if it cannot be applied.
    """

    def __init__(self, schedule: Schedule, stage: Stage) -> None:
        self.schedule, self._stage = schedule, stage

    @property
    def axis(self) -> list[str]:
        """Initial loops over the dimensions of the tensor."""
        return [axis.name for axis in self._stage.axes if not axis.reduces]

    @property
    def reduce_axis(self) -> list[str]:
        """Initial loops over the reduction axes."""
        return [axis.name for axis in self._stage.axes if axis.reduces]

    @property
    def loops(self) -> list[str]:
        """Current loops, outermost first."""
        return list(self._stage.leaves)

    @property
    def _is_output(self) -> bool:
        return any(tensor.name == self._stage.name for tensor in self.schedule.outputs)

    def _refuse(self, primitive: str, reason: str) -> ScheduleError:
        """Return the error that says why `primitive` cannot be applied, with the current loops."""
        loops = "\n".join(_loop_lines(self._stage))
        return ScheduleError(f"{primitive} of {self._stage.name}: {reason}\n{loops}")

    def _place(self, primitive: str, loop: object) -> int:
        """Return the position of a loop."""
        name = loop.name if isinstance(loop, Var) else loop
        if name not in self._stage.leaves:
            raise self._refuse(primitive, f"there is no loop {name}")
        return self._stage.leaves.index(name)

    def split(self, loop: str, factor: int) -> tuple[str, str]:
        """Split a loop into an outer loop and an inner loop of `factor` iterations; return (outer, inner).

        `for i in range(12)` becomes `for i_o in range(3): for i_i in range(4)`, with i = i_o * 4 + i_i. If
        `factor` does not divide the extent, a condition keeps i in range.
        """
        place = self._place("split", loop)
        if not isinstance(factor, int) or factor < 1:
            raise self._refuse("split", f"factor {factor!r} is not a positive whole number")
        name = self._stage.leaves[place]
        self._refuse_if_attached("split", name)
        outer, inner = (self.schedule._unique_name(f"{name}_{end}", self._stage.name) for end in "oi")
        self._stage.relations.append(Split(name, outer, inner, factor))
        self._stage.leaves[place : place + 1] = [outer, inner]
        return outer, inner

    def fuse(self, outer: str, inner: str) -> str:
        """Fuse two perfectly nested loops into a single loop; return it.

        `for i in range(3): for j in range(4)` becomes `for i_j in range(12)`, with i = i_j // 4 and j = i_j %
        4.
        """
        place = self._place("fuse", outer)
        if self._place("fuse", inner) != place + 1:
            raise self._refuse("fuse", f"{inner} is not directly inside {outer}")
        reducing = self._stage.reducing()
        if reducing[outer] != reducing[inner]:
            raise self._refuse("fuse", f"of {outer} and {inner}, only one is a reduction")
        self._refuse_if_attached("fuse", outer, inner)
        fused = self.schedule._unique_name(f"{outer}_{inner}", self._stage.name)
        self._stage.relations.append(Fuse(outer, inner, fused))
        self._stage.leaves[place : place + 2] = [fused]
        return fused

    def reorder(self, *loops: str) -> None:
        """Permute the given loops, within the positions that they occupy, into the given order.

        Reduction loops may be reordered: integer reductions do not depend on the order.

        `for i: for j:` becomes `for j: for i:`.
        """
        places = sorted(self._place("reorder", loop) for loop in loops)
        if len(set(places)) < len(loops):
            raise self._refuse("reorder", f"a loop is named twice: {', '.join(loops)}")
        before = list(self._stage.leaves)
        for place, loop in zip(places, loops, strict=True):
            self._stage.leaves[place] = loop
        misplaced = self.schedule.misplaced_reader()
        if misplaced is not None:
            self._stage.leaves = before
            raise self._refuse("reorder", misplaced)

    def tile(self, *loops_and_factors: str | int) -> tuple[str, ...]:
        """Split n loops by n factors and hoist the outer loops; return all loops, outermost first.

        `tile(y, x, k, 8, 8, 8)` returns (y_o, x_o, k_o, y_i, x_i, k_i).
        """
        loops = [item for item in loops_and_factors if isinstance(item, str)]
        factors = [item for item in loops_and_factors if isinstance(item, int)]
        pairs = [self.split(loop, factor) for loop, factor in zip(loops, factors, strict=True)]
        order = (*(outer for outer, _ in pairs), *(inner for _, inner in pairs))
        self.reorder(*order)
        return order

    def _refuse_if_attached(self, primitive: str, *loops: str) -> None:
        """Refuse to remove a loop that another stage is attached to."""
        for inner in self.schedule.stages:
            if (
                inner.attach is not None
                and inner.attach[0] is self._stage
                and (not loops or inner.attach[1] in loops)
            ):
                raise self._refuse(
                    primitive,
                    f"{inner.name} is computed at its loop {inner.attach[1]}; do this before compute_at",
                )

    def vthread(self, loop: str) -> None:
        """Make the iterations of a loop interleaved virtual threads with separate buffers.

        `for i in range(2)` becomes `for i in vthread(2)`.
        """
        place = self._place("vthread", loop)
        name = self._stage.leaves[place]
        if self._stage.reducing()[name]:
            raise self._refuse("vthread", f"{name} is a reduction; its iterations are not independent")
        self._stage.kinds[name] = LoopKind.VTHREAD

    def set_scope(self, scope: Scope | str) -> None:
        """Set the memory of the tensor's buffer."""
        if self._is_output:
            raise self._refuse("set_scope", "it is an output, which is stored in DRAM; use cache_write")
        self._stage.scope = Scope(scope)

    def make_odd(self, axis: str) -> None:
        """Widen the computed regions of the tensor to odd extents along a dimension, by an element behind
        them. A DEPTHWISE reads rows that are an odd number of elements apart."""
        if axis not in {each.name for each in self._stage.tensor.axes}:
            raise self._refuse("make_odd", f"{axis!r} is no dimension of it")
        self._stage.odd |= {axis}

    def compute_at(self, consumer: Tensor, loop: str) -> None:
        """Compute this tensor inside a loop of `consumer`: each iteration computes the region that it reads.

        `for i: B[i] = ...` and `for i: C[i] = B[i] ...` become `for i: B[0] = ...; C[i] = B[0] ...`.
        """
        consumer_stage = self.schedule.stage(consumer)
        handle = StageHandle(self.schedule, consumer_stage)
        handle._place("compute_at", loop)
        if self._is_output:
            raise self._refuse("compute_at", "it is an output, which is computed as a whole")
        if _is_inside(consumer_stage, self._stage):
            raise self._refuse("compute_at", f"{consumer_stage.name} is computed inside it")
        before, self._stage.attach = self._stage.attach, (consumer_stage, loop)
        misplaced = self.schedule.misplaced_reader()
        if misplaced is not None:
            self._stage.attach = before
            raise self._refuse("compute_at", misplaced)

    def compute_inline(self) -> None:
        """Substitute this tensor's expression into its readers and remove the stage."""
        stage = self._stage
        if isinstance(stage.tensor.value, Reduce):
            raise self._refuse(
                "compute_inline", "it is a reduction, which cannot be substituted into its readers"
            )
        if self._is_output:
            raise self._refuse("compute_inline", "it is an output")
        self._refuse_if_attached("compute_inline")
        for reader in self.schedule.consumers(stage.tensor):
            value = _with_elements(reader.value, stage.tensor, lambda read: _inlined(read, stage))
            self.schedule._change_value(reader, value)
        self.schedule.stages.remove(stage)

    def tensorize(self, loop: str, intrinsics: Sequence[Intrinsic]) -> None:
        """Replace a loop, with its body, by the first of `intrinsics` that has the same semantics.

        Lowering proves the equivalence, or raises `MatchError`.
        """
        place = self._place("tensorize", loop)
        self._stage.tensorized = (self._stage.leaves[place], tuple(intrinsics))


def _is_inside(stage: Stage, outer: Stage) -> bool:
    """Whether `stage` is `outer`, or attached inside it."""
    while stage is not outer and stage.attach:
        stage = stage.attach[0]
    return stage is outer


def _is_inside_loop(stage: Stage, outer: Stage, loop: str) -> bool:
    """Whether `stage` is `outer`, or attached inside `loop` of `outer`."""
    while stage is not outer and stage.attach:
        holder, place = stage.attach
        if holder is outer:
            return outer.leaves.index(place) >= outer.leaves.index(loop)
        stage = holder
    return stage is outer


def _inlined(element: Element, stage: Stage) -> Expr:
    """Return the expression of `stage` for the subscripts of an element."""
    axes = zip(stage.tensor.axes, element.indices, strict=True)
    return substitute(stage.value, {axis.name: index for axis, index in axes})


def create_schedule(*outputs: Tensor) -> Schedule:
    """Return the default schedule: each tensor is computed in full, with a loop per axis."""
    return Schedule(*outputs)
