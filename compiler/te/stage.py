"""One tensor of a schedule: its loops, where it is computed, and how loops relate to axes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from vdla.compiler.ir.affine import simplify
from vdla.compiler.ir.nodes import Const, Expr, Intrinsic, LoopKind, Scope, Var
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
    """How one tensor is computed.

    Attributes:
        tensor: which.
        scope: where its elements live.
        axes: its own axes, then those it combines over.
        relations: splits and fusions, in order.
        leaves: its loops, from the outside in.
        kinds: of loops that are not serial.
        whole: axes, counted from the last, of which all elements are computed wherever some are.
        attach: the stage and loop inside which it is computed; None: at the top.
        tensorized: the loop from which on an intrinsic does the work, and the intrinsics of which the first
            that means it is taken.
    """

    tensor: Tensor
    scope: Scope = Scope.DRAM
    axes: tuple[Axis, ...] = ()
    relations: list[Split | Fuse] = field(default_factory=list)
    leaves: list[str] = field(default_factory=list)
    kinds: dict[str, LoopKind] = field(default_factory=dict)
    whole: int = 0
    attach: "tuple[Stage, str] | None" = None
    tensorized: tuple[str, tuple[Intrinsic, ...]] | None = None

    def __post_init__(self) -> None:
        self.axes = (*self.tensor.axes, *self.tensor.reduce_axes)
        self.leaves = [axis.name for axis in self.axes]

    @property
    def value(self) -> Expr:
        """What its tensor computes."""
        assert self.tensor.value is not None, "placeholders have no stage"
        return self.tensor.value

    @property
    def name(self) -> str:
        """That of its tensor."""
        return self.tensor.name

    def extents(self, domain: Mapping[str, int] | None = None) -> dict[str, int]:
        """Return the extent of every past and present loop, if the axes have the extents of `domain`."""
        found = {axis.name: (domain or {}).get(axis.name, axis.extent) for axis in self.axes}
        for relation in self.relations:
            match relation:
                case Split(parent, outer, inner, factor):
                    found[outer], found[inner] = -(-found[parent] // factor), min(factor, found[parent])
                case Fuse(outer, inner, fused):
                    found[fused] = found[outer] * found[inner]
        return found

    def values(self, extents: Mapping[str, int]) -> dict[str, Expr]:
        """Return every past and present loop as an expression of the leaves; a leaf of extent 1 is 0."""
        found: dict[str, Expr] = {leaf: Var(leaf) if extents[leaf] > 1 else Const(0) for leaf in self.leaves}
        for relation in reversed(self.relations):
            match relation:
                case Split(parent, outer, inner, _):
                    found[parent] = simplify(found[outer] * extents[inner] + found[inner])
                case Fuse(outer, inner, fused):
                    found[outer] = simplify(found[fused] // extents[inner])
                    found[inner] = simplify(found[fused] % extents[inner])
        return found

    def uneven(self, extents: Mapping[str, int]) -> list[str]:
        """Return the loops that a split does not divide evenly, so that some iterations are out of range."""
        return [
            relation.parent
            for relation in self.relations
            if isinstance(relation, Split) and extents[relation.parent] % extents[relation.inner]
        ]

    def reduces(self, loop: str) -> bool:
        """Whether a loop runs over a reduction axis or a part of one."""
        return self.reducing()[loop]

    def reducing(self) -> dict[str, bool]:
        """Return for every past and present loop whether it runs over a reduction axis."""
        origins = {axis.name: axis.reduces for axis in self.axes}
        for relation in self.relations:
            match relation:
                case Split(parent, outer, inner, _):
                    origins[outer] = origins[inner] = origins[parent]
                case Fuse(outer, inner, fused):
                    origins[fused] = origins[outer] or origins[inner]
        return origins
