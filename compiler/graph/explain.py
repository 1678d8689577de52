"""Explains the passes of the compiler as text: which rules replace which nodes."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from vdla.compiler.graph.nodes import Graph, GraphError, Node
from vdla.compiler.graph.pipeline import Trace
from vdla.compiler.graph.text import name_of, print_graph, print_node

Write = Callable[[str], None]


class StoppedError(Exception):
    """The pass after which the compiler is to stop has run; `graph` is the graph then."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(print_graph(graph))
        self.graph = graph


@dataclass
class Explanation:
    """Writes each rule that replaces nodes, with the nodes before and after; each rule that nearly matched,
    with the condition that does not hold; and how other passes change the numbers of operators.

    Attributes:
        write: is called with each line.
        stop_after: pass after which to stop, or "NAME:2" for the second time that it runs; "": do not stop.
        passes: how often each pass has run.
    """

    write: Write
    stop_after: str = ""
    passes: Counter[str] = field(default_factory=Counter)
    _before: Counter[str] = field(default_factory=Counter)
    _fired: int = 0

    @property
    def trace(self) -> Trace:
        """The trace that a pipeline takes; graphs are verified after each pass."""
        return Trace(self, self.begins, self.ended, verifies=True)

    def begins(self, name: str, graph: Graph) -> None:
        """Write the name of a pass that runs next."""
        self.passes[name] += 1
        self._before, self._fired = _operators(graph), 0
        self.write(f"pass {self._numbered(name)}")

    def fired(self, rule: str, before: Sequence[Node], after: Sequence[Node]) -> None:
        """Write a rule that has replaced nodes."""
        self._fired += 1
        self.write(f"  {rule}")
        for node in before:
            self.write(f"    - {_shown(node)}")
        for node in after:
            self.write(f"    + {_shown(node)}")

    def missed(self, rule: str, node: Node, reason: str) -> None:
        """Write a rule that nearly matched."""
        self.write(f"  not {rule}: {node}: {reason}")

    def ended(self, name: str, graph: Graph) -> None:
        """Write how the numbers of operators changed.

        Raises:
            StoppedError: this is the pass after which to stop.
        """
        after = _operators(graph)
        differences = {op: after[op] - self._before[op] for op in sorted({*after, *self._before})}
        changes = [f"{difference:+} {op}" for op, difference in differences.items() if difference]
        if changes and not self._fired:
            self.write(f"  {', '.join(changes)}")
        if self.stop_after in (self._numbered(name), f"{name}:{self.passes[name]}"):
            raise StoppedError(graph)

    def check_stopped(self) -> None:
        """Check that the pass after which to stop has run.

        Raises:
            GraphError: it has not; the message names the passes that have run.
        """
        if self.stop_after:
            known = ", ".join(
                f"{name} ({count} times)" if count > 1 else name for name, count in self.passes.items()
            )
            raise GraphError(
                f"no pass {self.stop_after!r} has run; these have: {known}; NAME:2 is the second time"
            )

    def _numbered(self, name: str) -> str:
        """Return the name of a pass, with a number from the second time on."""
        return name if self.passes[name] == 1 else f"{name}:{self.passes[name]}"


def _shown(node: Node) -> str:
    """Return the text of a node with the names of the file, not as identifiers."""
    return name_of(print_node(node))


def _operators(graph: Graph) -> Counter[str]:
    return Counter(node.op for node in graph.nodes)
