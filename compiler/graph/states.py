"""The states of a network: inputs that have, in each run, the value of an output of the run before."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import Graph, GraphError
from vdla.runtime.module.plan import State

ANY = "*"


def matched(
    states: Iterable[tuple[str, str]], inputs: Sequence[str], outputs: Sequence[str]
) -> dict[str, str]:
    """Return the output that each state takes, by the name of the input.

    Args:
        states: names of an input and an output; a `*` in both stands for the same text in both.
        inputs, outputs: of the model.

    Raises:
        GraphError: a pattern matches no input, or the output that it names is not there or is taken twice.
    """
    found: dict[str, str] = {}
    for before, after in states:
        if before.count(ANY) != after.count(ANY) or before.count(ANY) > 1:
            raise GraphError(
                f"state {before}={after}: write the name of an input and of an output, either without {ANY} "
                f"or with one {ANY} in each, which stands for the same text in both"
            )
        pattern = re.compile("(.+)".join(map(re.escape, before.split(ANY))))
        matches = [match for name in inputs if (match := pattern.fullmatch(name))]
        if not matches:
            raise GraphError(f"state {before}={after}: no input is called {before}; {_there(inputs)}")
        for match in matches:
            found[match[0]] = after.replace(ANY, match[1]) if match.groups() else after
    for name, output in found.items():
        if output not in outputs:
            raise GraphError(f"state {name} takes {output}, which is no output; {_there(outputs)}")
        if list(found.values()).count(output) > 1:
            raise GraphError(f"output {output} is taken by several states; name it once")
    return found


def _there(names: Sequence[str]) -> str:
    return f"there are {', '.join(names) or 'none'}"


def with_states(graph: Graph, states: Mapping[str, str]) -> Graph:
    """Return a graph with states, each the name of an input with the name of an output.

    Raises:
        GraphError: an input and the output that it takes have different types.
    """
    for name, output in states.items():
        before, after = graph.types[name], graph.types[output]
        if before != after:
            raise GraphError(
                f"state {name} is {before}, and takes {output}, which is {after}; both must have one type: "
                "let the model make the state in the shape in which it reads it"
            )
    return replace(graph, states={name: State(output) for name, output in states.items()})


def carried(graph: Graph, samples: Iterable[Mapping[str, np.ndarray]]) -> Iterator[dict[str, np.ndarray]]:
    """Yield samples without states, run one after the other, with the states before each run.

    The states are zero before the first run.

    Args:
        graph: of floats; its states stand for the numbers that they hold.
    """
    states = {name: np.zeros(graph.types[name].shape, graph.types[name].dtype) for name in graph.states}
    for sample in samples:
        whole = {**sample, **states}
        yield whole
        outputs = interpret(graph, whole)
        states = {name: outputs[state.output] for name, state in graph.states.items()}
