"""Why an element differs: the first term that a stream computes otherwise than the graph.

The launch is interpreted once more, up to the layer, and the operands of the wrong element are noted. Its
terms are compared with those of the graph; then the constants, the parameters, the table, and what is added
last.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from vdla.compiler.graph.nodes import Graph
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import MemoryType, Parameter
from vdla.prove.demanded import DemandedValues
from vdla.prove.domain import Domain
from vdla.prove.elements import Elements
from vdla.prove.graph_terms import GraphElement, GraphTerm, Index, element_of
from vdla.prove.launches import DifferenceError, StreamProof, WrongElement
from vdla.prove.machine import StreamMachine
from vdla.prove.memory import NO_WRITER, Dram
from vdla.prove.proof import Explanation
from vdla.prove.stream_terms import NOTHING, Form, Lane, Operand, Recorder, StreamTerm, Trail, accumulator_of
from vdla.runtime.module.plan import Plan
from vdla.runtime.session.launch import Tensor
from vdla.sim.decoded import DecodedStream

Key = bytes


@dataclass(frozen=True)
class _Due:
    """What the sum of an element has to hold.

    Attributes:
        factors: of each element, by key.
        terms: a term of each element, by key.
        constant: the rest of the sum.
    """

    factors: Mapping[Key, int]
    terms: Mapping[Key, GraphTerm]
    constant: int


def explained(domain: Domain, plan: Plan, graph: Graph, wrong: WrongElement) -> Explanation | None:
    """Return why an element differs; None if no operand differs in a way that is looked for.

    Args:
        domain: of the proof that names the element.
        graph: the graph for the target.
    """
    tensors, program = wrong.placed.tensors, wrong.program
    if wrong.writer == NO_WRITER:
        due = f"{wrong.value}{list(wrong.index)}"
        return Explanation("missing", None, None, f"no instruction of {wrong.stream} writes {due}")
    made: list[Recorder] = []

    def machine_of(stream: str, config: AcceleratorConfig, own: Domain, dram: Dram) -> StreamMachine:
        if stream != wrong.stream:
            return StreamMachine(config, own, dram)
        element = accumulator_of(program, wrong.writer, wrong.place, dram.low)
        steps = Trail(program, wrong.order, dram.constants).steps(wrong.writer, element)
        made.append(Recorder(config, own, dram, steps=steps, store=wrong.writer, element=element))
        return made[-1]

    with suppress(DifferenceError):  # which is `wrong` once more
        StreamProof(domain, plan, graph, machine_of=machine_of).run()
    machine, lane = made[0], wrong.place % plan.config.element_bytes(MemoryType.OUT)
    due_element = element_of(graph, wrong.value, wrong.index, set(wrong.standing))
    form = Lane(machine, lane).form(machine.steps)
    return Explainer(domain, graph, program, tensors, machine).explain(form, lane, due_element)


class Explainer:
    """Compares what a stream computed of an element with what the graph does.

    Args:
        domain: of the proof.
        graph: the graph for the target.
        program: the stream.
        tensors: by name, where they are in DRAM.
        machine: which noted the operands.
    """

    def __init__(
        self,
        domain: Domain,
        graph: Graph,
        program: DecodedStream,
        tensors: Mapping[str, Tensor],
        machine: Recorder,
    ) -> None:
        self._domain, self._graph, self._program, self._tensors = domain, graph, program, tensors
        self._record, self._constants = machine.record, machine.dram.constants
        self._values: dict[str, Elements] = {}

    def explain(self, form: Form, lane: int, due: GraphElement) -> Explanation | None:
        """Return the first difference of a lane, which steps made of `form`; None if there is none."""
        values = {term.value for term in due.terms if term.value} | ({due.added[0]} if due.added else set())
        demanded = DemandedValues(self._domain, self._graph, values)
        self._values = {name: demanded.take(name) for name in values}
        found: Explanation | None = None
        if due.node is not None and form.is_known and form.is_sum == due.is_sum:
            found = self._of_terms(form, self._due(due))
        return (
            found
            or self._of_parameters(self._record.parameters, form, lane, due)
            or self._of_table(self._record.table, due)
            or self._of_residual(self._record.residual, lane, due)
        )

    def _key(self, value: str, index: Index) -> Key:
        element: Key = self._values[value][index].tobytes()
        return element

    def _due(self, due: GraphElement) -> _Due:
        factors: dict[Key, int] = {}
        terms: dict[Key, GraphTerm] = {}
        constant = 0
        for term in due.terms:
            if not term.value:
                constant += term.factor * term.border
                continue
            element = self._values[term.value][term.index]
            if not element["kind"]:
                constant += term.factor * int(self._domain.functions.least[element["function"]])
                continue
            key = element.tobytes()
            factors[key] = factors.get(key, 0) + term.factor
            terms.setdefault(key, term)
        return _Due({key: factor for key, factor in factors.items() if factor}, terms, constant)

    # Terms

    def _of_terms(self, form: Form, due: _Due) -> Explanation | None:
        """Return the first wrong term of a sum or a maximum, or a missing one."""
        have: dict[Key, int] = {}
        for term in form.terms:
            key = term.element.tobytes()
            have[key] = have.get(key, 0) + term.factor
        if not form.is_sum:
            have = dict.fromkeys(have, 1)
        if _are_proportional(have, due.factors):
            return None
        wrong = [key for key in have if have[key] != due.factors.get(key, 0)]
        missing = [key for key in due.factors if key not in have]
        steps = groupby(form.terms, lambda term: (term.step.instruction, term.step.rank))
        for _, group in steps:
            terms = list(group)
            bad = [term for term in terms if term.element.tobytes() in wrong]
            if bad:
                return self._of_step(terms, bad[0], due, missing)
        if missing:
            return self._missing(missing, due, form)
        return None

    def _of_step(
        self, terms: Sequence[StreamTerm], bad: StreamTerm, due: _Due, missing: Sequence[Key]
    ) -> Explanation:
        """Return what is wrong with a step: its weights if its activations are due, else its activations."""
        key = bad.element.tobytes()
        step = bad.step.instruction
        who = f"{self._program.describe(step)} "
        if key in due.factors and bad.weight is not None:
            block = self._due_block(terms, bad, due)
            term = due.terms[key]
            left = f"{self._named(term)}, in {self._place(bad.source, 'INP', bad.lane)}"
            what = f"multiplies {left}, by {bad.factor}, in {self._place(bad.weight, 'WGT')}"
            right = f", where {due.factors[key]}{_weight(term)} was due{block}"
            return Explanation("weight", step, _loader(bad.weight), f"{who}{what}{right}")
        held = self._held(bad)
        if key in due.factors:
            have = f"adds {held} {bad.factor} times, where {due.factors[key]} times was due"
            return Explanation("weight", step, _loader(bad.source), f"{who}{have}")
        same = [each for each in missing if due.factors[each] == bad.factor] or list(missing)
        if not same:
            return Explanation(
                "extra", step, _loader(bad.source), f"{who}adds {held}, where no further term was due"
            )
        return Explanation(
            "activation",
            step,
            _loader(bad.source),
            f"{who}reads {held}, where {self._named(due.terms[same[0]])} was due",
        )

    def _missing(self, missing: Sequence[Key], due: _Due, form: Form) -> Explanation:
        term = due.terms[missing[0]]
        factor = f" times {due.factors[missing[0]]}{_weight(term)}" if form.is_sum else ""
        count = f"; {len(missing):,} terms are missing" if len(missing) > 1 else ""
        last = max((each.step.instruction for each in form.terms), default=None)
        after = (
            ""
            if last is None
            else f"; the last instruction that adds a term is {self._program.describe(last)}"
        )
        return Explanation(
            "missing",
            None,
            None,
            f"no instruction adds {self._named(term)}{factor}, which was due{count}{after}",
        )

    def _due_block(self, terms: Sequence[StreamTerm], bad: StreamTerm, due: _Due) -> str:
        """Return the weight block that was due, if a single block of the tensor holds its factors."""
        assert bad.weight is not None
        found = self._tensor_at(bad.weight.address)
        if found is None or not isinstance(bad.step.form, isa.Gemm):
            return ""
        name, tensor, data = found
        shape = bad.weight.values.shape
        blocks = (
            data[: len(data) // bad.weight.values.size * bad.weight.values.size]
            .view(np.int8)
            .reshape(-1, *shape)
        )
        lanes = {term.lane % shape[1]: due.factors.get(term.element.tobytes(), 0) for term in terms}
        rows = np.flatnonzero(
            [any((bad.weight.values[row, lane] != 0) for lane in lanes) for row in range(shape[0])]
        )
        row = next(
            row
            for row in rows
            if all(int(bad.weight.values[row, term.lane % shape[1]]) == term.factor for term in terms)
        )
        fit = np.flatnonzero(
            np.all([blocks[:, row, lane] == factor for lane, factor in lanes.items()], axis=0)
        )
        here = (bad.weight.address - tensor.address) // bad.weight.values.size
        return (
            f": it reads weight block {here} of {name} where block {fit[0]} was due" if len(fit) == 1 else ""
        )

    # The rest of the sum, and what follows

    def _of_parameters(
        self, held: Operand | None, form: Form, lane: int, due: GraphElement
    ) -> Explanation | None:
        if held is None or due.parameters is None or held.values is None:
            return None
        words = held.values[:, lane]
        for parameter in Parameter:
            have, want = int(words[parameter]), int(due.parameters[parameter])
            if parameter is Parameter.BIAS and form.is_known:
                have, want = have + form.constant, want + self._due(due).constant
            if have != want:
                name = parameter.name.lower() + (" and padding" if parameter is Parameter.BIAS else "")
                text = (
                    f"the STORE requantises by the parameters in ACC elements {held.place} to "
                    f"{held.place + len(Parameter) - 1}{self._filled(held)}: {name} {have} where {want} "
                    "was due"
                )
                kind = "constant" if parameter is Parameter.BIAS else "parameter"
                return Explanation(kind, None, _loader(held), text)
        return None

    def _of_table(self, held: Operand | None, due: GraphElement) -> Explanation | None:
        if held is None or len(due.tables) != 1:
            return None
        have, want = np.roll(held.values, len(held.values) // 2), due.tables[0].view(np.int8).reshape(-1)
        wrong = np.flatnonzero(have != want)
        if not wrong.size:
            return None
        first = int(wrong[0])
        text = (
            f"the STORE looks up the table from TABLE element {held.place} on{self._filled(held)}: "
            f"{int(have[first])} for {first - len(want) // 2} where {int(want[first])} was due"
        )
        return Explanation("table", None, _loader(held), text)

    def _of_residual(self, held: Operand | None, lane: int, due: GraphElement) -> Explanation | None:
        if held is None or due.added is None or held.values[lane].tobytes() == self._key(*due.added):
            return None
        name, index = due.added
        text = (
            f"the STORE adds {self._named_element(held.values[lane])}, in {self._place(held, 'RES', lane)}, "
            f"where {name}{list(index)} was due"
        )
        return Explanation("residual", None, _loader(held), text)

    # Names

    def _named(self, term: GraphTerm) -> str:
        return f"{term.value}{list(term.index)}"

    def _held(self, term: StreamTerm) -> str:
        if term.source is None:
            return f"{self._named_element(term.element)}, {self._at(term.step.address + term.lane)}"
        return f"{self._named_element(term.element)}, in {self._place(term.source, 'INP', term.lane)}"

    def _named_element(self, element: Elements) -> str:
        """Return an element as an element of a value of the graph, if it is one that the sum reads."""
        for name, values in self._values.items():
            flat = np.ascontiguousarray(values).reshape(-1)
            same = np.flatnonzero(flat == element)
            if same.size:
                index = np.unravel_index(same[0], values.shape)
                return f"{name}{[int(each) for each in index]}"
        return "an element that is none of its operands'"

    def _place(self, held: Operand | None, memory: str, lane: int = 0) -> str:
        if held is None:
            return "an accumulator"
        return f"{memory} element {held.place}{self._filled(held, lane)}"

    def _filled(self, held: Operand, lane: int = 0) -> str:
        """Return which instruction filled an element, and from where."""
        if held.loader == NOTHING:
            return ""
        where = "with padding" if held.address == NOTHING else self._at(held.address + lane)
        return f" (filled by instruction {held.loader} {where})"

    def _at(self, address: int) -> str:
        found = self._tensor_at(address)
        if found is None:
            return f"from byte {address:#x}"
        name, tensor, _ = found
        return f"from byte {address - tensor.address:,} of {name}, at {address:#x}"

    def _tensor_at(self, address: int) -> tuple[str, Tensor, np.ndarray] | None:
        for name, tensor in self._tensors.items():
            if tensor.address <= address < tensor.end:
                return name, tensor, self._constants[tensor.address : tensor.end]
        return None


def _weight(term: GraphTerm) -> str:
    return f" ({term.weight})" if term.weight else ""


def _loader(held: Operand | None) -> int | None:
    return None if held is None or held.loader == NOTHING else held.loader


def _are_proportional(have: Mapping[Key, int], due: Mapping[Key, int]) -> bool:
    """Whether factors are those that are due, or all of them the same multiple."""
    if set(have) != set(due):
        return False
    ratios = {have[key] / due[key] for key in due}
    return len(ratios) <= 1
