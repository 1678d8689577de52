"""The stage of a tensor in a schedule: its loops, its attachment, and the relations of loops to axes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from vdla.compiler.ir.affine import simplify
from vdla.compiler.ir.calls import Intrinsic
from vdla.compiler.ir.nodes import Const, Expr, LoopKind, Scope, Var
from vdla.compiler.te.tensor import Axis, Tensor


@dataclass(frozen=True, slots=True)
class Split:
    """`parent = outer * factor + inner`."""

    parent: str
    outer: str
    inner: str
    factor: int


@dataclass(frozen=True, slots=True)
class Fuse:
    """`fused = outer * extent(inner) + inner`."""

    outer: str
    inner: str
    fused: str


@dataclass(slots=True)
class Stage:
    """The loops that compute a tensor.

    Attributes:
        tensor: computed tensor.
        scope: memory of its buffer.
        axes: its dimensions, then its reduction axes.
        relations: splits and fusions, in order of application.
        leaves: current loops, outermost first.
        kinds: kinds of the loops that are not serial, by name.
        whole: number of trailing axes that are always computed in full.
        odd: axes whose regions are widened to odd extents.
        attach: consumer stage and its loop inside which the tensor is computed; None: at the top level.
        tensorized: loop that an intrinsic replaces, and the candidate intrinsics; the first match is used.
    """

    tensor: Tensor
    scope: Scope = Scope.DRAM
    axes: tuple[Axis, ...] = ()
    relations: list[Split | Fuse] = field(default_factory=list)
    leaves: list[str] = field(default_factory=list)
    kinds: dict[str, LoopKind] = field(default_factory=dict)
    whole: int = 0
    odd: frozenset[str] = frozenset()
    attach: "tuple[Stage, str] | None" = None
    tensorized: tuple[str, tuple[Intrinsic, ...]] | None = None

    def __post_init__(self) -> None:
        self.axes = (*self.tensor.axes, *self.tensor.reduce_axes)
        self.leaves = [axis.name for axis in self.axes]

    @property
    def value(self) -> Expr:
        """The expression of an element."""
        assert self.tensor.value is not None, "placeholders have no stage"
        return self.tensor.value

    @property
    def name(self) -> str:
        """Name of the tensor."""
        return self.tensor.name

    def extents(self, domain: Mapping[str, int] | None = None) -> dict[str, int]:
        """Return the extent of every past and present loop, for axes with the extents of `domain`."""
        extents = {axis.name: (domain or {}).get(axis.name, axis.extent) for axis in self.axes}
        for relation in self.relations:
            match relation:
                case Split(parent, outer, inner, factor):
                    extents[outer] = -(-extents[parent] // factor)
                    extents[inner] = min(factor, extents[parent])
                case Fuse(outer, inner, fused):
                    extents[fused] = extents[outer] * extents[inner]
        return extents

    def values(self, extents: Mapping[str, int]) -> dict[str, Expr]:
        """Return every past and present loop as an expression of the leaves; a leaf of extent 1 is 0."""
        loops: dict[str, Expr] = {leaf: Var(leaf) if extents[leaf] > 1 else Const(0) for leaf in self.leaves}
        for relation in reversed(self.relations):
            match relation:
                case Split(parent, outer, inner, _):
                    loops[parent] = simplify(loops[outer] * extents[inner] + loops[inner])
                case Fuse(outer, inner, fused):
                    loops[outer] = simplify(loops[fused] // extents[inner])
                    loops[inner] = simplify(loops[fused] % extents[inner])
        return loops

    def uneven_loops(self, extents: Mapping[str, int]) -> list[str]:
        """Return the loops whose extent the factor of a split does not divide; some iterations are out of
        range."""
        return [
            relation.parent
            for relation in self.relations
            if isinstance(relation, Split) and extents[relation.parent] % extents[relation.inner]
        ]

    def reducing(self) -> dict[str, bool]:
        """Return for every past and present loop whether it iterates over a reduction axis."""
        origins = {axis.name: axis.reduces for axis in self.axes}
        for relation in self.relations:
            match relation:
                case Split(parent, outer, inner, _):
                    origins[outer] = origins[inner] = origins[parent]
                case Fuse(outer, inner, fused):
                    origins[fused] = origins[outer] or origins[inner]
        return origins
