"""Regions: the part of a tensor that one iteration of its consumers needs, as a box for every stage.

A stage that is computed inside a loop of another stage computes the smallest box that holds everything its
consumers read in one iteration of that loop. The corner of the box is an expression of the enclosing loops;
its extents are constants.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vdla.compiler.ir.affine import Affine, Interval, affine, bounds, simplify
from vdla.compiler.ir.nodes import Const, Expr
from vdla.compiler.ir.rewrite import substitute, variables
from vdla.compiler.te.stage import Stage


@dataclass(frozen=True)
class Region:
    """A box of a tensor.

    Attributes:
        corner: its least index along each axis.
        extents: its size along each axis.
    """

    corner: tuple[Expr, ...]
    extents: tuple[int, ...]


@dataclass(frozen=True)
class Domain:
    """What a stage computes, and its loops.

    Attributes:
        region: of its tensor.
        extents: of every loop.
        indices: of the element that an iteration computes, in the tensor, by axis; for a reduction axis its
            value.
    """

    region: Region
    extents: dict[str, int]
    indices: dict[str, Expr]
    local: dict[str, Expr]


def domains(stages: list[Stage]) -> dict[str, Domain]:
    """Return the domain of every stage, by name; `stages` has producers first."""
    found: dict[str, Domain] = {}
    for stage in reversed(stages):
        region = _whole(stage) if stage.attach is None else _needed(stage, stages, found)
        found[stage.name] = _domain(stage, region)
    return found


def _whole(stage: Stage) -> Region:
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


def _needed(stage: Stage, stages: list[Stage], found: Mapping[str, Domain]) -> Region:
    fixed = set(enclosing(stage))
    ranges = {
        leaf: Interval(0, domain.extents[leaf] - 1)
        for other in stages
        if (domain := found.get(other.name))
        for leaf in other.leaves
    }
    shape = stage.tensor.shape
    boxes = [
        [_span(index, fixed, ranges, extent) for index, extent in zip(indices, shape, strict=True)]
        for indices in _reads_of(stage, stages, found)
    ]
    spans = [_union([box[axis] for box in boxes], extent) for axis, extent in enumerate(shape)]
    spans[len(shape) - stage.whole :] = [(Const(0), extent) for extent in shape[len(shape) - stage.whole :]]
    return Region(tuple(corner for corner, _ in spans), tuple(extent for _, extent in spans))


def _reads_of(stage: Stage, stages: list[Stage], found: Mapping[str, Domain]) -> Iterator[tuple[Expr, ...]]:
    """Yield the subscripts of every read of `stage`, in terms of its readers' loops."""
    for reader in stages:
        for element in reader.tensor.elements:
            if element.tensor.name == stage.name:
                yield tuple(
                    simplify(substitute(index, found[reader.name].indices)) for index in element.indices
                )


Span = tuple[Affine | None, Interval]  # the part that the loops around fix (None: unknown), and what varies


def _span(index: Expr, fixed: set[str], ranges: Mapping[str, Interval], extent: int) -> Span:
    """Separate the part that enclosing loops fix from the part that varies inside."""
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
    reach = bounds(Affine(tuple(inside), form.constant).expr(), ranges)
    return Affine(tuple(outside), 0), reach


def _union(spans: list[Span], extent: int) -> tuple[Expr, int]:
    """Return corner and extent of the least interval that holds all spans; the whole axis where their fixed
    parts differ."""
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
