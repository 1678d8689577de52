"""Which layers of two runs compute the same operators."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vdla.explore.runs.record import LayerRecord

Layers = Sequence[LayerRecord]


@dataclass(frozen=True, slots=True)
class Match:
    """Layers of two runs that compute the same operators, by their numbers. One side may be empty."""

    a: tuple[int, ...]
    b: tuple[int, ...]


def match_layers(a: Layers, b: Layers) -> tuple[Match, ...]:
    """Return the smallest matches, so that each layer is in exactly one match.

    Two layers are in the same match if they share an operator, or if each shares an operator with a third
    layer.

    Returns:
        The matches in the order of A's layers. A match without layers of A follows the match of the layer
        that precedes it in B.
    """
    users: dict[str, list[tuple[int, int]]] = {}
    keys = [list(_keys(layers)) for layers in (a, b)]
    for side, layers in enumerate(keys):
        for number, names in enumerate(layers):
            for name in names:
                users.setdefault(name, []).append((side, number))
    matches = list(_components(keys, users))
    return tuple(_ordered(matches))


def shared_operators(a: Layers, b: Layers) -> int:
    """Return how many operators occur in both runs."""
    names = [{name for keys in _keys(layers) for name in keys} for layers in (a, b)]
    return len(names[0] & names[1])


def _keys(layers: Layers) -> Iterator[tuple[str, ...]]:
    """Yield the names by which each layer is matched: its operators, or the layer's name where the run does
    not tell them. A repeated name of a layer gets a number."""
    seen = Counter[str]()
    for layer in layers:
        if layer.operators:
            yield layer.operators
            continue
        yield (f"{layer.name}\n{seen[layer.name]}" if seen[layer.name] else layer.name,)
        seen[layer.name] += 1


def _components(
    keys: Sequence[Sequence[tuple[str, ...]]], users: dict[str, list[tuple[int, int]]]
) -> Iterator[Match]:
    """Yield the connected components of layers that share names."""
    done: set[tuple[int, int]] = set()
    for start in ((side, number) for side in (0, 1) for number in range(len(keys[side]))):
        left, members = [start], set[tuple[int, int]]()
        while left:
            layer = left.pop()
            if layer not in done:
                done.add(layer)
                members.add(layer)
                left += [user for name in keys[layer[0]][layer[1]] for user in users[name]]
        if members:
            a, b = (tuple(sorted(each for which, each in members if which == side)) for side in (0, 1))
            yield Match(a, b)


def _ordered(matches: Sequence[Match]) -> list[Match]:
    """Return matches in the order of A's layers, each match of B alone behind its predecessor in B."""
    anchors, of_layer = dict[Match, int](), dict[int, Match]()
    for match in matches:
        of_layer.update(dict.fromkeys(match.b, match))
        if match.a:
            anchors[match] = match.a[0]
    for number, match in sorted(of_layer.items()):
        if match not in anchors:
            anchors[match] = anchors[of_layer[number - 1]] if number else -1
    return sorted(matches, key=lambda match: (anchors[match], not match.a, match.b))
