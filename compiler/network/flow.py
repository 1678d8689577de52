"""Which part of a network makes each value, and which values go from part to part."""

from collections.abc import Sequence

from vdla.compiler.network.maker import OnHost, View
from vdla.compiler.network.partition import Part
from vdla.runtime.layout import Layout


class Flow:
    """The values of a network in parts, which run in order.

    Args:
        outputs: values that leave the network.

    Attributes:
        standing: how each value stands in DRAM that the accelerator makes.
        views: the value whose bytes each result of a View has, with another shape.
        leaving: by part, the values that other parts read, or that leave the network, in order.
    """

    def __init__(self, parts: Sequence[Part], outputs: Sequence[str]) -> None:
        self.standing: dict[str, Layout] = {}
        self.views: dict[str, str] = {}
        self._origins: dict[str, str] = {}
        self._makers: dict[str, int] = {}
        read = set(outputs)
        for number, part in enumerate(parts):
            for one in part:
                read.update(name for name in one.node.inputs if self._makers.get(name) != number)
                self._makers |= dict.fromkeys(one.node.outputs, number)
                if isinstance(one, View):
                    self._add_view(one)
                elif not isinstance(one, OnHost):
                    self.standing[one.node.outputs[0]] = one.output[1]
        self.leaving = [[name for one in part for name in one.node.outputs if name in read] for part in parts]

    def _add_view(self, view: View) -> None:
        out, before = view.node.outputs[0], view.node.inputs[0]
        self.standing[out], self.views[out] = view.layout, before
        self._origins[out] = self.origin(before)

    def origin(self, name: str) -> str:
        """Return the value that shares the bytes of `name`, which no View makes."""
        return self._origins.get(name, name)

    def comes_in(self, name: str, number: int) -> bool:
        """Whether a value, or that whose bytes it shares, is made outside a part, by the part's number."""
        return self._makers.get(self.origin(name)) != number
