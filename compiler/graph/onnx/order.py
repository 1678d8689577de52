"""Topological sorting of nodes: some tools write nodes in any order, as ONNX Runtime accepts it."""

from heapq import heappop, heappush

from onnx import GraphProto, ModelProto

from vdla.compiler.graph.onnx.subgraphs import reads


def in_order(proto: ModelProto) -> ModelProto:
    """Return a model with its nodes in topological order, otherwise in the order of the file.

    A model with a cycle, or with a value that is defined twice, is returned unchanged.
    """
    graph = proto.graph
    producers = _producers(graph)
    if producers is None or all(max(makers, default=-1) < place for place, makers in enumerate(producers)):
        return proto
    order = _order(producers)
    if len(order) < len(graph.node):
        return proto
    sorted_model = ModelProto()
    sorted_model.CopyFrom(proto)
    del sorted_model.graph.node[:]
    sorted_model.graph.node.extend(graph.node[place] for place in order)
    return sorted_model


def _producers(graph: GraphProto) -> list[set[int]] | None:
    """Return the positions of the producers of each node's inputs; None if a value is defined twice."""
    makers: dict[str, int] = {}
    for place, node in enumerate(graph.node):
        for name in filter(None, node.output):
            if makers.setdefault(name, place) != place:
                return None
    return [{makers[name] for name in reads(node) if name in makers} for node in graph.node]


def _order(producers: list[set[int]]) -> list[int]:
    """Return the positions of nodes in topological order, without nodes of cycles and their dependents."""
    waiting = [len(makers) for makers in producers]
    readers: list[list[int]] = [[] for _ in producers]
    for place, makers in enumerate(producers):
        for maker in makers:
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
