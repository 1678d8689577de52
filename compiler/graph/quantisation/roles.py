"""Which operators of a float graph compute with integers, and which of its values become int8.

- Products with constant weights compute with integers; a following bias, Relu or Clip is fused into them.
- Products of two activations compute with integers; a following scalar factor, Relu or Clip is fused into
  them.
- Sums, elementwise products and Concat compute with integers if an input is int8 and an integer operator
  reads the result. A tensor between two float operators is not quantised.
- The operands of sums and products may be constants, and values that the host computes from the inputs of
  the network, such as attention masks. They are expanded to the shape of the result.
- On accelerators that normalise rows, softmax and normalisations of the last axis compute with integers if an
  integer operator reads the result.
- Pooling and operators that only move elements compute with integers if an input is int8.
- A chain of elementwise functions of an int8 tensor becomes a lookup table; nothing inside it is quantised.

Whether an operator is worth quantising depends on its neighbours, so operators that are not are removed in
rounds. A round visits only nodes whose neighbours the previous round changed. The work therefore grows with
the number of nodes, not with the number of rounds.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from heapq import heappop, heappush
from types import MappingProxyType

import numpy as np

from vdla.compiler.graph.affine import factor_of
from vdla.compiler.graph.conversions import BOUNDS, Conversions
from vdla.compiler.graph.integer_forms.normalisation import OF_ROWS
from vdla.compiler.graph.integer_forms.rules import MOVES, PAIR_SUMS
from vdla.compiler.graph.integer_forms.site import PAIRED, Site, multiplies_activations
from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.graph.quantisation.sets import Sets
from vdla.compiler.graph.quantise_weights import WEIGHTED, Integers, is_quantisable_product
from vdla.compiler.lower.tables import FORMS
from vdla.runtime.host import elementwise

PAIRS = ("Add", "Mul")
POOLS = ("AveragePool", "GlobalAveragePool", "MaxPool")
VIEWS = (*(op for op in MOVES if op != "Concat"), "Gather")  # of one tensor
SAME_SCALE = ("MaxPool", *VIEWS)
JOINED = (*PAIRS, "Concat")  # whose constant operands become int8
JOINING = (*JOINED, *BOUNDS, *OF_ROWS)  # quantised only if an integer operator reads the result
CARRYING = (*POOLS, *VIEWS)  # quantised after an integer operator


class Roles:
    """The roles of the nodes of a float graph in its quantised form; nodes are named by their first output.

    Args:
        graph: the float graph.
        in_float: first outputs of nodes that stay in float.
        weights: integer weights of products; others are rounded to int8.
        normalises: softmax and normalisations of rows may compute with integers.

    Attributes:
        in_float, weights, normalises: as passed.
        given: constants, and values that are computed from inputs of the network without a product.
        products: products with constant weights.
        pairs: products of two activations.
        biases: sums that add a constant to the rows of a product.
        scales: nodes that multiply a product of two activations by a scalar.
        fused: biases, scales and bounds that are fused into the operator before them.
        others: further nodes that compute with integers.
        roots: for each elementwise function of an int8 tensor, that tensor.
        wanted: values that an integer operator reads, directly or through elementwise functions.
    """

    def __init__(
        self,
        graph: Graph,
        in_float: Collection[str] = (),
        weights: Mapping[str, Integers] = MappingProxyType({}),
        *,
        normalises: bool = False,
    ) -> None:
        self.graph, self.conversions, self.in_float = graph, Conversions(graph), frozenset(in_float)
        self.weights, self.normalises = weights, normalises
        self.makers, self.readers = self.conversions.makers, self.conversions.readers
        self.products = {
            node.result for node in graph.nodes if self._is_candidate(node) and self._is_product(node)
        }
        self.pairs = {node.result for node in graph.nodes if self._is_candidate(node) and self._is_pair(node)}
        self.biases = {
            node.result for node in graph.nodes if self._is_candidate(node) and self._is_bias(node)
        }
        self.scales: set[str] = set()
        for node in graph.nodes:
            if self._is_candidate(node) and self._is_scale(node):
                self.scales.add(node.result)
        self.given = self._given()
        self.others = {
            node.result for node in graph.nodes if self._is_candidate(node) and self._is_other(node)
        }
        self.roots: dict[str, str] = {}
        self.wanted: set[str] = set()
        self.fused = self.biases | self.scales
        _shrink(self)
        self.others -= self.fused

    def changed(
        self,
        *,
        graph: Graph | None = None,
        in_float: Collection[str] | None = None,
        weights: Mapping[str, Integers] | None = None,
    ) -> "Roles":
        """Return the roles with another graph, other nodes in float, or other weights."""
        return Roles(
            self.graph if graph is None else graph,
            self.in_float if in_float is None else in_float,
            self.weights if weights is None else weights,
            normalises=self.normalises,
        )

    # Queries

    def is_integer(self, node: Node) -> bool:
        """Whether a node computes with integers."""
        (name, *_) = node.outputs
        return name in self.products or name in self.pairs or name in self.fused or name in self.others

    def ends_chain(self, node: Node) -> bool:
        """Whether a node is the last of its fused chain, so that its result becomes int8."""
        readers = self.readers(node.result)
        return not (len(readers) == 1 and readers[0].result in self.fused)

    def fused_chain(self, node: Node) -> tuple[Node, ...]:
        """Return a product and the nodes fused into it, in order."""
        chain = [node]
        while not self.ends_chain(chain[-1]):
            chain.append(self.readers(chain[-1].result)[0])
        return tuple(chain)

    def activations(self, node: Node) -> tuple[str, ...]:
        """Return the inputs of an integer operator that must be int8; none if the node is fused."""
        if node.result in self.fused:
            return ()
        if node.op in JOINED and node.result in self.others:
            return node.inputs
        names = node.inputs[:1] if node.result in self.products else node.inputs
        return tuple(name for name in names if name not in self.graph.constants)

    def shape_of_operand(self, node: Node, name: str) -> tuple[int, ...]:
        """Return the shape to which an operand of an integer operator is expanded."""
        expands = node.op in PAIRS and name in self.given and node.result in self.others
        return self.graph.types[node.result if expands else name].shape

    @cached_property
    def scores(self) -> dict[str, str]:
        """The int8 values that only softmax reads; for each, the mask that was added to it, or "".

        Elements of the mask are 0, or so low that their powers are 0.
        """
        masks = dict[str, str]()
        for node in self.graph.nodes:
            name, *_ = node.inputs
            if node.op != "Softmax" or node.result not in self.others:
                continue
            if all(each.op == "Softmax" and each.result in self.others for each in self.readers(name)):
                maker = self.makers.get(name)
                summed = maker is not None and maker.op == "Add" and maker.result in self.others
                given = [each for each in maker.inputs if each in self.given] if maker and summed else []
                masks[name] = given[0] if len(given) == 1 else ""
        return masks

    @cached_property
    def narrow(self) -> tuple[str, ...]:
        """The values that become int8, in order."""
        names: dict[str, None] = {}
        for node in self.graph.nodes:
            if self.is_integer(node):
                names |= dict.fromkeys(self.activations(node))
                names |= dict.fromkeys(node.outputs if self.ends_chain(node) else ())
        return tuple(names)

    @cached_property
    def origins(self) -> dict[str, str]:
        """The origin of each int8 value: a value that holds its elements, and has its scale.

        The result of an operator that only moves elements has the origin of its input. A value that only a
        Concat reads has the origin of the Concat's result.
        """
        sets = Sets(self.narrow)
        for node in self.graph.nodes:
            out = node.result
            if out not in self.others or node.op not in (*SAME_SCALE, "Concat"):
                continue
            if node.op != "Concat":
                for each in node.outputs:
                    sets.join(each, node.inputs[0])
                continue
            for name in node.inputs:
                if name in sets.leaders and self._only_concat_reads(name, node):
                    sets.join(name, out)
        return {name: sets.leader(name) for name in sets.leaders}

    @cached_property
    def leaders(self) -> dict[str, str]:
        """The leader of each int8 value: the value whose scale it shares.

        A value shares the scale of its origin, and the results of all steps of an operation share one scale.
        So do a state and the output that it takes.
        """
        sets, first = Sets(self.origins.values()), dict[str, str]()
        for node in self.graph.nodes:
            if node.step_of and node.result in self.origins:
                origin = self.origins[node.result]
                sets.join(origin, first.setdefault(node.step_of, origin))
        for name, state in self.graph.states.items():
            if name in self.origins and state.output in self.origins:
                sets.join(self.origins[name], self.origins[state.output])
        return {name: sets.leader(origin) for name, origin in self.origins.items()}

    def _only_concat_reads(self, name: str, concat: Node) -> bool:
        return all(
            reader is concat or (reader.op in SAME_SCALE and reader.result in self.others)
            for reader in self.readers(name)
        )

    # Classification

    def _is_candidate(self, node: Node) -> bool:
        """Whether a node is float32 and is not excluded by `in_float`."""
        return self.graph.types[node.result].dtype == "float32" and node.result not in self.in_float

    def _is_product(self, node: Node) -> bool:
        return (
            node.op in WEIGHTED
            and is_quantisable_product(self.graph, node)
            and all(self._is_finite(name) for name in node.inputs[1:] if name)
        )

    def _is_finite(self, constant: str) -> bool:
        return bool(np.isfinite(self.graph.constants[constant]).all())

    def _is_pair(self, node: Node) -> bool:
        """Whether a node multiplies two activations and has an integer form."""
        site = Site(self.conversions, node)
        return multiplies_activations(self.conversions, node) and not any(
            rule.violation(site) for rule in (*FORMS[PAIRED].first, PAIR_SUMS)
        )

    def _is_scale(self, node: Node) -> bool:
        """Whether a node multiplies a product of two activations by a scalar, as its only reader."""
        operand_and_factor = factor_of(self.graph, node)
        if operand_and_factor is None:
            return False
        operand, _ = operand_and_factor
        return self.conversions.is_read_once(operand) and (operand in self.pairs or operand in self.scales)

    def _is_bias(self, node: Node) -> bool:
        """Whether a node adds a constant to each column of a matrix product, as its only reader."""
        constants = [name for name in node.inputs if name in self.graph.constants]
        if node.op != "Add" or len(constants) != 1 or not self._is_finite(constants[0]):
            return False
        (product,) = (name for name in node.inputs if name not in self.graph.constants)
        maker, shape = self.makers.get(product), self.graph.types[node.result].shape
        return (
            maker is not None
            and maker.op == "MatMul"
            and product in self.products
            and self.conversions.is_read_once(product)
            and shape == self.graph.types[product].shape
            and self.graph.types[constants[0]].size in (1, shape[-1])
            and self.graph.types[constants[0]].shape[-1:] in ((), (1,), shape[-1:])
        )

    def _is_other(self, node: Node) -> bool:
        """Whether a node has an integer form if its inputs are int8."""
        if node.op not in (*JOINING, *CARRYING):
            return False
        if node.result in self.biases or node.result in self.scales:
            return False
        constant = [name in self.graph.constants for name in node.inputs]
        if node.op in OF_ROWS:
            return self.normalises and self._normalises_last(node)
        if node.op == "Concat":
            return not all(constant)
        if node.op in PAIRS and self._expands(node):
            return True
        if constant[0] or (any(constant) if node.op != "Gather" else not all(constant[1:])):
            return False
        shapes = FORMS[node.op].inside[0] if node.op in PAIRS else None
        return shapes is None or not shapes.violation(Site(self.conversions, node))

    def _normalises_last(self, node: Node) -> bool:
        """Whether an operator of rows normalises the last axis, with constant parameters."""
        rank = len(self.graph.types[node.result].shape)
        constant = all(name in self.graph.constants for name in filter(None, node.inputs[1:]))
        return constant and len(node.outputs) == 1 and node.integer("axis") % rank == rank - 1

    def _expands(self, node: Node) -> bool:
        """Whether an operand of a sum or a product has the result's shape, and the other operand is given and
        can be expanded to it: to more rows, with the same columns."""
        types, result = self.graph.types, self.graph.types[node.result].shape
        given = [name for name in node.inputs if name in self.given]
        others = [name for name in node.inputs if name not in self.given]
        if len(given) != 1 or len(others) != 1 or types[others[0]].shape != result:
            return False
        shape, constant = types[given[0]].shape, self.graph.constants.get(given[0])
        if constant is not None and not constant.max(initial=-np.inf) < np.inf:
            return False
        return len(result) > 1 and shape[-1:] == result[-1:] and min(result) > 0 and types[given[0]].size > 1

    def _given(self) -> frozenset[str]:
        """Return the constants, and the values that are computed from inputs without a product."""
        given = {*self.graph.constants, *self.graph.inputs} - {*self.graph.states}
        for node in self.graph.nodes:
            multiplies = node.result in self.products or node.result in self.pairs
            if not multiplies and all(name in given for name in node.inputs if name):
                given.update(node.outputs)
        return frozenset(given)

    def is_bound(self, node: Node) -> bool:
        """Whether a node is a Relu or Clip that can be fused into the producer of its input."""
        before = self.makers.get(node.inputs[0]) if node.op in BOUNDS and self._is_candidate(node) else None
        if before is None or not self.conversions.is_read_once(node.inputs[0]):
            return False
        (name, *_) = before.outputs
        if name in self.products or name in self.pairs or name in self.biases or name in self.scales:
            return True
        return before.op == "Add" and name in self.others

    def root_of(self, node: Node) -> str | None:
        """Return the int8 tensor of which a node computes an elementwise function, or None."""
        out = node.result
        if node.op not in elementwise.OPERATORS or not self._is_candidate(node):
            return None
        if out in self.products or out in self.pairs or out in self.fused:
            return None
        if node.op in BOUNDS and node.inputs[0] not in self.roots:  # requantised with bounds
            return None
        reads = [name for name in node.inputs if name not in self.graph.constants]
        roots = {self.roots.get(name, name if self._is_integer_result(name) else "") for name in reads}
        if len(roots) != 1 or "" in roots or not self._keeps_shape(node, *roots):
            return None
        return next(iter(roots))

    def _keeps_shape(self, node: Node, root: str) -> bool:
        types = self.graph.types
        single = all(types[name].size == 1 for name in node.inputs if name in self.graph.constants)
        return single and len(types[root].shape) > 0 and types[node.result].shape == types[root].shape

    def _is_integer_result(self, name: str) -> bool:
        """Whether an integer operator computes a value."""
        maker = self.makers.get(name)
        return maker is not None and self.is_integer(maker) and self.ends_chain(maker)

    def _is_narrow(self, name: str) -> bool:
        """Whether a value is int8, or an elementwise function of an int8 value."""
        return self._is_integer_result(name) or name in self.roots

    def is_worth_quantising(self, node: Node) -> bool:
        """Whether quantising a node of `others` avoids a conversion to float."""
        if node.result in self.roots:
            return False
        inputs = node.op in OF_ROWS or any(self._is_narrow(name) for name in node.inputs)
        last = self.fused_chain(node)[-1].result
        return inputs and (node.op in CARRYING or last in self.wanted)

    def is_wanted(self, name: str) -> bool:
        """Whether an integer operator reads a value, directly or through wanted elementwise functions."""
        return any(
            reader.result in self.wanted
            if reader.result in self.roots
            else self._computes(reader) and name in self.activations(reader)
            for reader in self.readers(name)
        )

    def _computes(self, node: Node) -> bool:
        (name, *_) = node.outputs
        return name in self.products or name in self.pairs or name in self.others


# Shrinking


def _shrink(roles: Roles) -> None:
    """Remove nodes from `others` until all remaining nodes are worth quantising; update the dependent
    sets."""
    graph = roles.graph
    roles.fused |= {node.result for node in graph.nodes if roles.is_bound(node)}
    rounds = _Rounds(roles)
    rounds.update_roots(graph.nodes)
    rounds.update_wanted(
        {name: None for node in graph.nodes for name in (*node.inputs, *node.outputs) if name}
    )
    judged: Iterable[str] = [node.result for node in graph.nodes if node.result in roles.others]
    while out := rounds.not_worth_quantising(judged):
        roles.others -= out
        judged = rounds.update(out)


class _Rounds:
    """The rounds of `_shrink`.

    Attributes:
        visits: the number of visits to nodes and values so far.
    """

    def __init__(self, roles: Roles) -> None:
        self.roles = roles
        self.places = {node.result: place for place, node in enumerate(roles.graph.nodes)}
        self.visits = 0

    def not_worth_quantising(self, names: Iterable[str]) -> set[str]:
        """Return the nodes among `names` that are not worth quantising."""
        roles = self.roles
        judged = {name for name in names if name in roles.others and name not in roles.fused}
        self.visits += len(judged)
        return {name for name in judged if not roles.is_worth_quantising(roles.makers[name])}

    def update(self, out: set[str]) -> set[str]:
        """Update the sets after the nodes `out` were removed; return the nodes to judge again."""
        roles = self.roles
        released = {reader.result for reader in self.readers(out) if self.is_no_longer_fused(reader)}
        roles.fused -= released
        changed = out | released
        begun = (*(roles.makers[name] for name in changed), *self.readers(changed))
        changed |= self.update_roots(begun)
        wanted = self.update_wanted(
            {name: None for each in changed for name in roles.makers[each].inputs if name}
        )
        before = {roles.makers[name].inputs[0] for name in released}
        makers = {roles.makers[name].result for name in wanted | before if name in roles.makers}
        read = {each for name in makers if name in roles.fused for each in roles.makers[name].inputs}
        heads = {roles.makers[name].result for name in read if name in roles.makers}
        return changed | makers | heads | {reader.result for reader in self.readers(changed)}

    def is_no_longer_fused(self, node: Node) -> bool:
        """Whether a bound that was fused into its producer no longer can be."""
        roles = self.roles
        return node.op in BOUNDS and node.result in roles.fused and not roles.is_bound(node)

    def readers(self, names: Iterable[str]) -> list[Node]:
        """Return the readers of the results of nodes."""
        roles = self.roles
        return [
            reader for name in names for out in roles.makers[name].outputs for reader in roles.readers(out)
        ]

    def update_roots(self, nodes: Iterable[Node]) -> set[str]:
        """Update the roots of nodes and of their transitive readers; return the nodes whose root changed."""
        roles, changed = self.roles, set[str]()
        waiting = sorted({self.places[node.result] for node in nodes})
        known = set(waiting)
        while waiting:
            place = heappop(waiting)
            known.discard(place)
            node, self.visits = roles.graph.nodes[place], self.visits + 1
            out, root = node.result, roles.root_of(node)
            if root == roles.roots.get(out):
                continue
            changed.add(out)
            if root is None:
                del roles.roots[out]
            else:
                roles.roots[out] = root
            for reader in roles.readers(out):
                if (place := self.places[reader.result]) not in known:
                    known.add(place)
                    heappush(waiting, place)
        return changed

    def update_wanted(self, names: Iterable[str]) -> set[str]:
        """Update `wanted` for values and for the values they are computed from; return the changed values."""
        roles, changed = self.roles, set[str]()
        known = dict.fromkeys(names)
        waiting = sorted((-self.position_of(name), name) for name in known)
        while waiting:
            _, name = heappop(waiting)
            del known[name]
            self.visits += 1
            if roles.is_wanted(name) == (name in roles.wanted):
                continue
            changed.add(name)
            roles.wanted ^= {name}
            for before in roles.makers[name].inputs if name in roles.roots else ():
                if before and before not in known:
                    known[before] = None
                    heappush(waiting, (-self.position_of(before), before))
        return changed

    def position_of(self, name: str) -> int:
        """Return the position of the producer of a value; -1 if no node produces it."""
        maker = self.roles.makers.get(name)
        return -1 if maker is None else self.places[maker.result]
