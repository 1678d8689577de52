"""Launches that are worth it: what computes next to nothing between operators on the host runs there, too."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from vdla.compiler.graph.nodes import Graph, consumers
from vdla.compiler.network.maker import Offloaded, Placed
from vdla.compiler.network.partition import Part, parts
from vdla.runtime.module.reasons import reason_of

SHARE = 1000  # of the network's work that a launch must do: one in so many
TAKES = f"the accelerator takes launches with at least 1/{SHARE} of the network's work"

Place = Callable[[Mapping[str, str]], list[Placed]]


def worthwhile(graph: Graph, place: Place) -> list[Part]:
    """Return the parts of a graph, without launches that are not worth it.

    Args:
        place: returns where each node runs; it is given why nodes must run on the host, by their first
            result.
    """
    on_host: dict[str, str] = {}
    while True:
        found = parts(place(on_host))
        small = _small(found)
        if not small:
            return found
        on_host |= dict(_reasons(graph, found, small))


def work(part: Part) -> int:
    """Return the multiply-accumulates of a part on the accelerator, and the elements that it makes."""
    return sum(one.macs + one.output[1].size for one in part if isinstance(one, Offloaded))


def _small(found: Sequence[Part]) -> set[int]:
    """Return the numbers of the parts on the accelerator that do less than their share."""
    done = {number: work(part) for number, part in enumerate(found) if _is_launch(part)}
    return {number for number, own in done.items() if own * SHARE < sum(done.values())}


def _is_launch(part: Part) -> bool:
    return any(isinstance(one, Offloaded) for one in part)


def _reasons(graph: Graph, found: Sequence[Part], small: Collection[int]) -> Iterator[tuple[str, str]]:
    """Yield why each node of some parts runs on the host, by its first result."""
    of = {name: number for number, part in enumerate(found) for one in part for name in one.node.outputs}
    readers = consumers(graph)
    for node in reversed(graph.nodes):
        name = node.outputs[0]
        if name not in of:  # what follows it is carried out with it
            of[name] = of[readers[name][0].outputs[0]]
        if of[name] in small:
            yield name, reason_of(f"{node.op} with little to do between operators on the host", TAKES)
