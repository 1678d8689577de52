"""Lowering: from a schedule to a loop program, with the region that each stage computes.

A stage that is computed inside a loop of another stage computes the bounding box of all elements that its
consumers read in an iteration of that loop. The corner of the box is an expression of the enclosing loops;
its extents are constants.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from vdla.compiler.ir.affine import AffineForm, Interval, affine, bounds, decide, simplify
from vdla.compiler.ir.nodes import (
    Alloc,
    Binary,
    Buffer,
    Const,
    Expr,
    For,
    Func,
    If,
    LoopKind,
    Read,
    Stmt,
    Var,
    Write,
    all_of,
    block,
)
from vdla.compiler.ir.rewrite import Node, rewrite, substitute, variables
from vdla.compiler.ir.verify import verify
from vdla.compiler.te.stage import Stage
from vdla.compiler.te.tensor import Element, Reduce, Tensor
from vdla.compiler.te.tensorize import tensorized_call


@dataclass(frozen=True)
class Region:
    """A box of a tensor.

    Attributes:
        corner: least index along each axis.
        extents: size along each axis, in elements.
    """

    corner: tuple[Expr, ...]
    extents: tuple[int, ...]


@dataclass(frozen=True)
class Domain:
    """The region that a stage computes, and its loops.

    Attributes:
        region: computed box of the tensor.
        extents: extent of every loop, by name.
        indices: index, in the whole tensor, of the element that an iteration computes, by axis; for a
            reduction axis, its value.
        local: the same indices relative to the corner of the region.
    """

    region: Region
    extents: dict[str, int]
    indices: dict[str, Expr]
    local: dict[str, Expr]


def domains(stages: list[Stage]) -> dict[str, Domain]:
    """Return the domain of every stage, by name. `stages` is in topological order, producers first."""
    result: dict[str, Domain] = {}
    for stage in reversed(stages):
        region = _whole_region(stage) if stage.attach is None else _required_region(stage, stages, result)
        result[stage.name] = _domain(stage, region)
    return result


def _whole_region(stage: Stage) -> Region:
    shape = stage.tensor.shape
    return Region(tuple(Const(0) for _ in shape), shape)


def _domain(stage: Stage, region: Region) -> Domain:
    spatial = {axis.name: extent for axis, extent in zip(stage.tensor.axes, region.extents, strict=True)}
    extents = stage.extents(spatial)
    local = stage.values(extents)
    indices = {
        axis.name: simplify(corner + local[axis.name])
        for axis, corner in zip(stage.tensor.axes, region.corner, strict=True)
    }
    indices |= {axis.name: local[axis.name] for axis in stage.tensor.reduce_axes}
    return Domain(region, extents, indices, local)


def enclosing(stage: Stage) -> list[str]:
    """Return the loops of other stages that enclose `stage`, innermost first."""
    if stage.attach is None:
        return []
    outer, loop = stage.attach
    place = outer.leaves.index(loop)
    return [*reversed(outer.leaves[: place + 1]), *enclosing(outer)]


def _required_region(stage: Stage, stages: list[Stage], known: Mapping[str, Domain]) -> Region:
    fixed = set(enclosing(stage))
    ranges = {
        leaf: Interval(0, domain.extents[leaf] - 1)
        for consumer in stages
        if (domain := known.get(consumer.name))
        for leaf in consumer.leaves
    }
    shape = stage.tensor.shape
    boxes = [
        [_span(index, fixed, ranges, extent) for index, extent in zip(indices, shape, strict=True)]
        for indices in _reads_of(stage, stages, known)
    ]
    spans = [_union([box[axis] for box in boxes], extent) for axis, extent in enumerate(shape)]
    spans[len(shape) - stage.whole :] = [(Const(0), extent) for extent in shape[len(shape) - stage.whole :]]
    return Region(
        tuple(corner for corner, _ in spans),
        tuple(
            extent | (axis.name in stage.odd)
            for (_, extent), axis in zip(spans, stage.tensor.axes, strict=True)
        ),
    )


def _reads_of(stage: Stage, stages: list[Stage], known: Mapping[str, Domain]) -> Iterator[tuple[Expr, ...]]:
    """Yield the subscripts of every read of `stage`, in terms of its readers' loops."""
    for reader in stages:
        for element in reader.tensor.elements:
            if element.tensor.name == stage.name:
                yield tuple(
                    simplify(substitute(index, known[reader.name].indices)) for index in element.indices
                )


# the part that enclosing loops fix (None: unknown), and the range of the rest
Span = tuple[AffineForm | None, Interval]


def _span(index: Expr, fixed: set[str], ranges: Mapping[str, Interval], extent: int) -> Span:
    """Split an index into the part that enclosing loops fix and the range of the inner part."""
    form = affine(index)
    outside, inside = [], []
    for atom, factor in form.terms:
        names = variables(atom)
        if names <= fixed:
            outside.append((atom, factor))
        elif names & fixed:
            return None, Interval(0, extent - 1)
        else:
            inside.append((atom, factor))
    reach = bounds(AffineForm(tuple(inside), form.constant).expr(), ranges)
    return AffineForm(tuple(outside), 0), reach


def _union(spans: list[Span], extent: int) -> tuple[Expr, int]:
    """Return corner and extent of the smallest interval that covers all spans, or the whole axis if their
    fixed parts differ."""
    whole = Const(0), extent
    forms = [form for form, _ in spans if form is not None]
    if len(forms) < len(spans) or len({frozenset(form.terms) for form in forms}) != 1:
        return whole
    low, high = min(reach.low for _, reach in spans), max(reach.high for _, reach in spans)
    form = forms[0]
    if form.is_constant:
        low, high = max(low, 0), min(high, extent - 1)
    if high - low + 1 >= extent:
        return whole
    return simplify(form.expr() + low), high - low + 1


def lower(stages: list[Stage], outputs: list[Tensor], name: str, *, verified: bool = True) -> Func:
    """Return the loop program of a schedule's stages, producers first.

    Inputs and outputs become parameters. Every other tensor is allocated at the loop that computes it.

    Args:
        stages: in topological order, producers first.
        outputs: tensors that become the last parameters.
        verified: run the verifier on the result.

    Raises:
        MatchError: the semantics of an intrinsic differ from the loops that it replaces.
        IrError: the verifier rejects the program.
    """
    func = _ScheduleLowering(stages, outputs).func(name)
    if verified:
        verify(func)
    return func


class _ScheduleLowering:
    """The domains and buffers of all stages of a schedule."""

    def __init__(self, stages: list[Stage], outputs: list[Tensor]) -> None:
        self.stages = stages
        self.domains = domains(self.stages)
        self.results = [tensor.buffer for tensor in outputs]
        self.outputs = {tensor.name for tensor in outputs}
        self.buffers = {stage.name: self._buffer(stage) for stage in self.stages}
        self.reducing = {stage.name: stage.reducing() for stage in self.stages}
        self.ranges = {
            leaf: Interval(0, self.domains[stage.name].extents[leaf] - 1)
            for stage in self.stages
            for leaf in stage.leaves
        }

    def _buffer(self, stage: Stage) -> Buffer:
        shape = self.domains[stage.name].region.extents
        return Buffer(stage.name, shape, stage.tensor.dtype, stage.scope)

    def func(self, name: str) -> Func:
        """Return the program `name`: parameters are the placeholders, then the outputs."""
        params = (*(tensor.buffer for tensor in self._placeholders()), *self.results)
        outermost = [stage for stage in self.stages if stage.attach is None]
        return Func(name, params, self._statements(outermost, None))

    def _placeholders(self) -> Iterable[Tensor]:
        placeholders = {
            source.name: source
            for stage in self.stages
            for source in stage.tensor.inputs
            if source.value is None
        }
        return placeholders.values()

    def _statements(self, stages: list[Stage], rest: Callable[[], Stmt] | None) -> Stmt:
        """Return the statements of `stages`, followed by the statements that `rest` returns. The buffer of a
        stage is live from the stage to the end."""
        if not stages:
            assert rest is not None, "a schedule has a stage"
            return rest()
        stage, following = stages[0], stages[1:]
        body = self._nest(stage, 0)
        if following or rest:
            body = block(body, self._statements(following, rest))
        return body if stage.name in self.outputs else Alloc(self.buffers[stage.name], body)

    # A single stage

    def _nest(self, stage: Stage, place: int) -> Stmt:
        """Return the loops of `stage` from the loop at `place` inwards."""
        domain, body = self.domains[stage.name], self._loop(stage, place)
        if stage.tensorized and stage.leaves[place : place + 1] == [stage.tensorized[0]]:
            body = tensorized_call(body, stage.tensorized[1])
        if self._first_reduction(stage) == place:
            return block(self._initialisation(stage, domain, place), body)
        return body

    def _loop(self, stage: Stage, place: int) -> Stmt:
        """Return the loop at `place`, or the statement inside all loops, with what is computed inside it."""
        domain = self.domains[stage.name]
        if place == len(stage.leaves):
            return self._guarded(stage, domain, self._update(stage, domain), with_reductions=True)
        leaf = stage.leaves[place]
        children = [
            child
            for child in self.stages
            if child.attach is not None and child.attach[0] is stage and child.attach[1] == leaf
        ]
        body = self._statements(children, lambda: self._nest(stage, place + 1))
        return self._loops(stage, domain, [leaf], body)

    def _loops(self, stage: Stage, domain: Domain, leaves: Sequence[str], body: Stmt) -> Stmt:
        """Return a nest of loops, outermost first, around `body`; loops with a single iteration are left
        out."""
        for leaf in reversed(leaves):
            if domain.extents[leaf] > 1:
                kind = stage.kinds.get(leaf, LoopKind.SERIAL)
                body = For(Var(leaf), domain.extents[leaf], body, kind)
        return body

    def _first_reduction(self, stage: Stage) -> int | None:
        """Return the position of the outermost reduction loop, or None."""
        reducing = self.reducing[stage.name]
        return next((place for place, leaf in enumerate(stage.leaves) if reducing[leaf]), None)

    def _initialisation(self, stage: Stage, domain: Domain, place: int) -> Stmt:
        """Return the loops that initialise every element to the identity of the reduction."""
        value = stage.value
        assert isinstance(value, Reduce), "only reductions have initial values"
        body = self._guarded(
            stage,
            domain,
            Write(self.buffers[stage.name], self._element_indices(stage, domain), value.identity()),
            with_reductions=False,
        )
        inner = [leaf for leaf in stage.leaves[place:] if not self.reducing[stage.name][leaf]]
        if stage.tensorized:
            loop, intrinsics = stage.tensorized
            tile = [leaf for leaf in inner if stage.leaves.index(leaf) >= stage.leaves.index(loop)]
            body = tensorized_call(self._loops(stage, domain, tile, body), intrinsics)
            inner = [leaf for leaf in inner if leaf not in tile]
        return self._loops(stage, domain, inner, body)

    def _element_indices(self, stage: Stage, domain: Domain) -> tuple[Expr, ...]:
        return tuple(domain.local[axis.name] for axis in stage.tensor.axes)

    def _update(self, stage: Stage, domain: Domain) -> Stmt:
        indices = self._element_indices(stage, domain)
        value = stage.value
        inner = self._with_buffer_reads(
            substitute(value.value if isinstance(value, Reduce) else value, domain.indices)
        )
        if isinstance(value, Reduce):
            inner = Binary(value.op, Read(self.buffers[stage.name], indices), inner)
        update = Write(self.buffers[stage.name], indices, inner)
        return update if stage.tensorized else simplify(update)  # the matcher simplifies before it matches

    def _with_buffer_reads(self, value: Expr) -> Expr:
        """Return `value` with elements as reads of buffers, whose subscripts count from the corner of the
        computed box."""

        def change(part: Node) -> Node | None:
            if not isinstance(part, Element):
                return None
            name = part.tensor.name
            if name not in self.domains:
                return Read(part.tensor.buffer, part.indices)
            corner = self.domains[name].region.corner
            return Read(
                self.buffers[name],
                tuple(index - least for index, least in zip(part.indices, corner, strict=True)),
            )

        return rewrite(value, change)

    def _guarded(self, stage: Stage, domain: Domain, body: Stmt, *, with_reductions: bool) -> Stmt:
        """Guard `body` against iterations past the end of a loop or of the tensor."""
        conditions = dict.fromkeys(self._conditions(stage, domain, with_reductions))
        return If(all_of(*conditions), body) if conditions else body

    def _conditions(self, stage: Stage, domain: Domain, with_reductions: bool) -> Iterable[Expr]:
        """Yield the bounds checks that are not provably true."""
        for loop in stage.uneven_loops(domain.extents):
            if with_reductions or not self.reducing[stage.name][loop]:
                condition = simplify(domain.local[loop] < domain.extents[loop])
                if decide(condition, self.ranges) is not True:
                    yield condition
        for axis, dimension in zip(stage.tensor.axes, stage.tensor.shape, strict=True):
            index = domain.indices[axis.name]
            reach = bounds(index, self.ranges)
            if reach.high >= dimension:
                yield index < dimension
            if reach.low < 0:
                yield Const(-1) < index
