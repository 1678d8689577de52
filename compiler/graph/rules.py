"""Rewrite rules on graphs: tables of rules, and the driver that applies them until none matches.

A rule is a function of a `Rewriter` and a node of one of its operators, the root of the pattern. It looks at
the nodes around the root and replaces nodes. The driver owns the order, the uses of values, dead code and the
fixpoint. A replacement is visited again, as are the readers of its results.

The greedy driver with a worklist follows the applier of rewrite patterns in MLIR and xDSL.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from vdla.compiler.graph.def_use import DefUse
from vdla.compiler.graph.nodes import Graph, Node, TensorType, type_of
from vdla.compiler.graph.rewrite import NewValues, rebuilt, renamed

MOST_REWRITES = 50  # per node of the graph, beyond which the rules of a table undo each other


class Watcher(Protocol):
    """Observes the rules; see `vdla.compiler.graph.explain`."""

    def fired(self, rule: str, before: Sequence[Node], after: Sequence[Node]) -> None:
        """A rule has replaced nodes."""

    def missed(self, rule: str, node: Node, reason: str) -> None:
        """A rule has not replaced a node, although nearly all of its conditions hold."""


@dataclass(frozen=True, slots=True)
class RewriteRule:
    """A rule.

    Attributes:
        ops: operators of the root, for which the rule is called.
        rewrite: replaces nodes by methods of the `Rewriter`, or does nothing.
        name: name of the function without leading underscores.
    """

    ops: tuple[str, ...]
    rewrite: Callable[["Rewriter", Node], None] = field(repr=False)

    @property
    def name(self) -> str:
        """The rule's name, as `--explain` shows it."""
        return self.rewrite.__name__.strip("_")


@dataclass(frozen=True, slots=True, repr=False)
class Rules:
    """A pass that applies rules until none matches.

    Attributes:
        name: of the pass.
        rules: for each node the first rule that matches is applied.
    """

    name: str
    rules: tuple[RewriteRule, ...]

    def __repr__(self) -> str:
        return self.name.upper()

    def run(self, graph: Graph, watcher: Watcher | None = None) -> Graph:
        """Return the graph after all rewrites, without dead code."""
        rewriter = Rewriter(graph, watcher)
        by_op: dict[str, list[RewriteRule]] = {}
        for rule in self.rules:
            for op in rule.ops:
                by_op.setdefault(op, []).append(rule)
        rewriter.drive(by_op)
        return rewriter.finished()


class Rewriter(NewValues, DefUse):
    """A graph while rules change it, with makers and readers of its values.

    New nodes take the position of the node that they replace, so the order remains topological.
    """

    types: dict[str, TensorType]
    constants: dict[str, np.ndarray]

    def __init__(self, graph: Graph, watcher: Watcher | None = None) -> None:
        DefUse.__init__(self, graph)
        NewValues.__init__(self, graph)
        self.types |= graph.types
        self.constants |= graph.constants
        self._slots: list[list[Node]] = [[node] for node in graph.nodes]
        self._slot: dict[int, int] = {id(node): place for place, node in enumerate(graph.nodes)}
        self._work = deque(graph.nodes)
        self._watcher, self._rule, self._changes = watcher, "", 0

    # What rules call

    def replace(self, node: Node, new: Iterable[Node]) -> None:
        """Replace a node by nodes in topological order, which make all its results."""
        nodes = list(new)
        results = {name for each in nodes for name in each.outputs}
        assert results.issuperset(node.outputs), f"{self._rule} makes all results of {node}"
        self._note((node,), nodes)
        slot = self._slot[id(node)]
        place = self._index(node)
        self._forget(node)
        self._slots[slot][place : place + 1] = nodes
        for each in nodes:
            self._slot[id(each)] = slot
            self.makers |= dict.fromkeys(each.outputs, each)
            self._add_reads(each)
        self._remove_dead(node.inputs)
        self._visit(nodes)

    def replace_by_constant(self, node: Node, array: np.ndarray) -> None:
        """Replace a node with a single result by a constant."""
        (out,) = node.outputs
        self._note((node,), ())
        self._slots[self._slot[id(node)]].pop(self._index(node))
        self._forget(node)
        del self.makers[out]
        self.types[out], self.constants[out] = type_of(array), array
        self._remove_dead(node.inputs)
        self._work.extendleft(reversed(self.readers(out)))

    def read_instead(self, old: str, new: str) -> None:
        """Make all readers of `old`, which must not be an output of the graph, read `new`."""
        for reader in self.readers(old):
            self.replace(reader, [renamed(reader, {old: new})])

    def missed(self, node: Node, reason: str) -> None:
        """Report that the rule does not replace a node, although nearly all of its conditions hold."""
        if self._watcher is not None:
            self._watcher.missed(self._rule, node, reason)

    # What the driver calls

    def drive(self, by_op: Mapping[str, Sequence[RewriteRule]]) -> None:
        """Apply rules, by the operator of the root, until none matches."""
        most = MOST_REWRITES * (len(self._work) + 1)
        while self._work:
            node = self._work.popleft()
            for rule in by_op.get(node.op, ()):
                if id(node) not in self._slot:
                    break
                before, self._rule = self._changes, rule.name
                rule.rewrite(self, node)
                if self._changes > before:
                    break
            assert self._changes < most, f"the rule {self._rule} and others undo each other"

    def finished(self) -> Graph:
        """Return the graph as it is now."""
        nodes = (node for slot in self._slots for node in slot)
        return rebuilt(self.graph, nodes, self.constants, self.types)

    def _note(self, before: Sequence[Node], after: Sequence[Node]) -> None:
        self._changes += 1
        if self._watcher is not None:
            self._watcher.fired(self._rule, before, after)

    def _index(self, node: Node) -> int:
        """Return the index of a node in its slot."""
        return next(place for place, each in enumerate(self._slots[self._slot[id(node)]]) if each is node)

    def _forget(self, node: Node) -> None:
        """Remove a node from the readers."""
        del self._slot[id(node)]
        for name in node.inputs:
            self._readers.get(name, {}).pop(id(node), None)

    def _remove_dead(self, names: Iterable[str]) -> None:
        """Remove the makers of values without readers."""
        waiting = list(names)
        while waiting:
            node = self.makers.get(waiting.pop())
            if node is None or any(self._is_used(name) for name in node.outputs):
                continue
            self._slots[self._slot[id(node)]].pop(self._index(node))
            self._forget(node)
            for name in node.outputs:
                del self.makers[name]
            waiting += node.inputs

    def _is_used(self, name: str) -> bool:
        return bool(self._readers.get(name)) or name in self.graph.outputs

    def _visit(self, nodes: Sequence[Node]) -> None:
        """Put nodes, and the readers of their results, at the front of the worklist."""
        readers = [reader for node in nodes for name in node.outputs for reader in self.readers(name)]
        self._work.extendleft(reversed([*nodes, *readers]))
