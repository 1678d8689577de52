"""Which operators use each channel of a graph, and which values may have their channels in any order."""

from collections.abc import Collection
from dataclasses import dataclass, field

from vdla.compiler.graph.nodes import Node
from vdla.compiler.network.channels import Channels, is_product, keeps_places


@dataclass
class Uses:
    """The uses of the channels of a graph.

    Args:
        taken: the operators that the accelerator takes.

    Attributes:
        free: values whose readers all take channels in any order, with others between.
        of: by the number of a channel, the positions of the nodes that use it, through others too.
    """

    channels: Channels
    taken: Collection[str]
    free: set[str] = field(default_factory=set)
    of: dict[int, set[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        nodes = self.channels.graph.nodes
        for position in reversed(range(len(nodes))):
            for name in nodes[position].outputs:
                self._find_free(name)
            self._note(position)
        for name in self.channels.graph.inputs:
            self._find_free(name)

    def _find_free(self, name: str) -> None:
        outputs, readers = self.channels.graph.outputs, self.channels.readers
        if name not in outputs and all(self.accepts(reader, name) for reader in readers[name]):
            self.free.add(name)

    def accepts(self, node: Node, name: str) -> bool:
        """Whether a node can read a value whose channels stand in any order: it takes them so, or their order
        is worth a product that restores it."""
        if any(made in self.channels.moved for made in node.outputs):
            return all(made in self.free for made in node.outputs)
        return self.takes(node, name) or (
            node.op in self.taken and name in self.channels.scattered and self.channels.is_whole(name)
        )

    def takes(self, node: Node, name: str) -> bool:
        """Whether a node that moves no channels reads them in any order as they are."""
        graph = self.channels.graph
        if not self.channels.is_whole(name) or node.inputs.count(name) > 1 or node.inputs[0] != name:
            return False
        if is_product(graph, node):
            return node.integer("group") == 1 or name in self.channels.scattered
        return keeps_places(graph, node) and node.outputs[0] in self.free

    def _note(self, position: int) -> None:
        """Note what a node uses that moves no channels."""
        graph, numbers = self.channels.graph, self.channels.numbers
        node = graph.nodes[position]
        for name in node.inputs:
            if not self.channels.is_whole(name) or any(made in self.channels.moved for made in node.outputs):
                continue
            keeps = self.takes(node, name) and keeps_places(graph, node)
            for place, number in enumerate(numbers[name].tolist()):
                used = self.of.setdefault(number, set())
                used.add(position)
                if keeps:
                    used |= self.of.get(int(numbers[node.outputs[0]][place]), set())
