"""Pareto fronts and the hypervolume that they dominate."""

from collections.abc import Sequence

Vector = Sequence[float]


def dominates(vector: Vector, other: Vector) -> bool:
    """Whether `vector` is nowhere larger than `other`, and somewhere smaller."""
    return all(a <= b for a, b in zip(vector, other, strict=True)) and tuple(vector) != tuple(other)


def front(vectors: Sequence[Vector]) -> list[Vector]:
    """Return the vectors that no other dominates, each once, in ascending order."""
    nondominated: list[Vector] = []
    for vector in sorted(set(map(tuple, vectors))):  # nothing that follows dominates what stands before
        if not any(dominates(other, vector) for other in nondominated):
            nondominated.append(vector)
    return nondominated


def hypervolume(vectors: Sequence[Vector], reference: Vector) -> float:
    """Return the volume of the vectors that are at least as large as one of `vectors` and below `reference`.

    Source: L. While et al., "A faster algorithm for calculating hypervolume", IEEE Transactions on
    Evolutionary Computation 10(1), 2006: the volume is cut into slices along one objective.
    """
    inside = front(
        [vector for vector in vectors if all(a < b for a, b in zip(vector, reference, strict=True))]
    )
    if not inside:
        return 0.0
    if len(reference) == 1:
        return reference[0] - inside[0][0]
    ends = [vector[0] for vector in inside[1:]] + [reference[0]]
    return sum(
        (end - vector[0]) * hypervolume([other[1:] for other in inside[: number + 1]], reference[1:])
        for number, (vector, end) in enumerate(zip(inside, ends, strict=True))
        if end > vector[0]
    )
