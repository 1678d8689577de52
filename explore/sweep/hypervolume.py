"""Pareto fronts and the hypervolume that they dominate."""

from collections.abc import Sequence

Vector = Sequence[float]


def dominates(one: Vector, other: Vector) -> bool:
    """Whether `one` is nowhere larger than `other`, and somewhere smaller."""
    return all(a <= b for a, b in zip(one, other, strict=True)) and tuple(one) != tuple(other)


def front(vectors: Sequence[Vector]) -> list[Vector]:
    """Return the vectors that no other dominates, each once, in ascending order."""
    found: list[Vector] = []
    for vector in sorted(set(map(tuple, vectors))):  # nothing that follows dominates what stands before
        if not any(dominates(other, vector) for other in found):
            found.append(vector)
    return found


def hypervolume(vectors: Sequence[Vector], reference: Vector) -> float:
    """Return the volume of the vectors that are at least as large as one of `vectors` and below `reference`.

    Source: L. While et al., "A faster algorithm for calculating hypervolume", IEEE Transactions on
    Evolutionary Computation 10(1), 2006: the volume is cut into slices along one objective.
    """
    inside = front([one for one in vectors if all(a < b for a, b in zip(one, reference, strict=True))])
    if not inside:
        return 0.0
    if len(reference) == 1:
        return reference[0] - inside[0][0]
    ends = [one[0] for one in inside[1:]] + [reference[0]]
    return sum(
        (end - one[0]) * hypervolume([other[1:] for other in inside[: number + 1]], reference[1:])
        for number, (one, end) in enumerate(zip(inside, ends, strict=True))
        if end > one[0]
    )
