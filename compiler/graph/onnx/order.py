"""Nodes in an order in which they can run: some tools write a node behind those that read what it makes, as
ONNX Runtime takes it."""

from heapq import heappop, heappush

from onnx import GraphProto, ModelProto

from vdla.compiler.graph.onnx.subgraphs import reads


def in_order(proto: ModelProto) -> ModelProto:
    """Return a model whose nodes stand in an order in which they can run, each as early as it stands in the
    file; as it is where they do already, where they form a cycle, or where a value is made twice."""
    graph = proto.graph
    before = _before(graph)
    if before is None or all(max(places, default=-1) < own for own, places in enumerate(before)):
        return proto
    order = _order(before)
    if len(order) < len(graph.node):
        return proto
    made = ModelProto()
    made.CopyFrom(proto)
    del made.graph.node[:]
    made.graph.node.extend(graph.node[place] for place in order)
    return made


def _before(graph: GraphProto) -> list[set[int]] | None:
    """Return the places of the nodes that make what each node reads; None where a value is made twice."""
    makers: dict[str, int] = {}
    for place, node in enumerate(graph.node):
        for name in filter(None, node.output):
            if makers.setdefault(name, place) != place:
                return None
    return [{makers[name] for name in reads(node) if name in makers} for node in graph.node]


def _order(before: list[set[int]]) -> list[int]:
    """Return the places of nodes in an order in which they can run; without those of cycles, and behind."""
    waiting = [len(places) for places in before]
    readers: list[list[int]] = [[] for _ in before]
    for place, places in enumerate(before):
        for maker in places:
            readers[maker].append(place)
    ready = [place for place, count in enumerate(waiting) if not count]  # in order, and so a heap
    order = []
    while ready:
        order.append(heappop(ready))
        for place in readers[order[-1]]:
            waiting[place] -= 1
            if not waiting[place]:
                heappush(ready, place)
    return order
