"""Regions: for every stage, the box of its tensor that a single iteration of its consumers reads.

A stage that is computed inside a loop of another stage computes the bounding box of all elements that its
consumers read in an iteration of that loop. The corner of the box is an expression of the enclosing loops;
its extents are constants.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vdla.compiler.ir.affine import AffineForm, Interval, affine, bounds, simplify
from vdla.compiler.ir.nodes import Const, Expr
from vdla.compiler.ir.rewrite import substitute, variables
from vdla.compiler.te.stage import Stage


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
        for other in stages
        if (domain := known.get(other.name))
        for leaf in other.leaves
    }
    shape = stage.tensor.shape
    boxes = [
        [_span(index, fixed, ranges, extent) for index, extent in zip(indices, shape, strict=True)]
        for indices in _reads_of(stage, stages, known)
    ]
    spans = [_union([box[axis] for box in boxes], extent) for axis, extent in enumerate(shape)]
    spans[len(shape) - stage.whole :] = [(Const(0), extent) for extent in shape[len(shape) - stage.whole :]]
    return Region(tuple(corner for corner, _ in spans), tuple(extent for _, extent in spans))


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
