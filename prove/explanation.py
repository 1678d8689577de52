"""Why an element differs: the first term that a stream computes otherwise than the graph.

The launch is interpreted once more, up to the layer, and the operands of the wrong element are noted. Its
terms are compared with those of the graph; then the constants, the parameters, the table, and what is added
last.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from math import frexp

import numpy as np

from vdla.compiler.graph.nodes import Graph
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import MemoryType, Parameter
from vdla.prove.domain import Domain
from vdla.prove.elements import Elements
from vdla.prove.functions import BYTES
from vdla.prove.graph_terms import GraphElement, GraphTerm, Index, element_of
from vdla.prove.launches import DifferenceError, StreamProof, WrongElement
from vdla.prove.machine import StreamMachine
from vdla.prove.memory import NO_WRITER, Dram
from vdla.prove.proof import Explanation
from vdla.prove.reference import DemandedValues
from vdla.prove.stream_terms import NOTHING, Form, Lane, Operand, Recorder, StreamTerm, Trail, accumulator_of
from vdla.runtime.module.plan import Plan
from vdla.runtime.session.launch import Tensor

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
    if wrong.writer == NO_WRITER:
        unwritten = f"{wrong.value}{list(wrong.index)}"
        return Explanation("missing", None, None, f"no instruction of {wrong.stream} writes {unwritten}")
    made: list[Recorder] = []

    def machine_of(stream: str, config: AcceleratorConfig, own: Domain, dram: Dram) -> StreamMachine:
        if stream != wrong.stream:
            return StreamMachine(config, own, dram)
        element = accumulator_of(wrong.program, wrong.writer, wrong.place, dram.low)
        steps = Trail(wrong.program, wrong.order, dram.constants).steps(wrong.writer, element)
        made.append(Recorder(config, own, dram, steps=steps, store=wrong.writer, element=element))
        return made[-1]

    with suppress(DifferenceError):  # which is `wrong` once more
        StreamProof(domain, plan, graph, machine_of=machine_of).run()
    machine, lane = made[0], wrong.place % plan.config.element_bytes(MemoryType.OUT)
    due = element_of(graph, wrong.value, wrong.index, set(wrong.standing))
    form = Lane(machine, lane).form(machine.steps)
    found = Explainer(domain, graph, machine, wrong).explain(form, due)
    return (
        None if found is None else replace(found, text=f"{found.text}{_holds(domain, graph, wrong, machine)}")
    )


def _holds(domain: Domain, graph: Graph, wrong: WrongElement, machine: Recorder) -> str:
    """Return which element of the value a byte holds, if it holds another of them."""
    values = DemandedValues(domain, graph, [wrong.value]).take(wrong.value)
    same = np.flatnonzero(values.reshape(-1) == machine.dram.elements[wrong.place])
    if not same.size:
        return ""
    index = [int(each) for each in np.unravel_index(same[0], values.shape)]
    return f"; the byte holds {wrong.value}{index}"


class Explainer:
    """Compares what a stream computed of an element with what the graph does.

    Args:
        domain: of the proof.
        graph: the graph for the target.
        machine: which noted the operands.
        wrong: the element.
    """

    def __init__(
        self,
        domain: Domain,
        graph: Graph,
        machine: Recorder,
        wrong: WrongElement,
    ) -> None:
        self._domain, self._graph = domain, graph
        self._program, self._tensors = wrong.program, wrong.placed.tensors
        self._record, self._constants = machine.record, machine.dram.constants
        self._values: dict[str, Elements] = {}
        self._lane = wrong.place % machine.config.element_bytes(MemoryType.OUT)
        self._standing = sorted(wrong.standing)

    def explain(self, form: Form, due: GraphElement) -> Explanation | None:
        """Return the first difference of a lane, which steps made of `form`; None if there is none."""
        values = {term.value for term in due.terms or () if term.value}
        values |= {due.added[0]} if due.added else set()
        demanded = DemandedValues(self._domain, self._graph, values)
        self._values = {name: demanded.take(name) for name in values}
        found: Explanation | None = None
        rest: _Due | None = None
        if due.terms is not None and form.is_known and form.terms and form.is_sum != due.is_sum:
            found = self._of_other_form(form)
        elif due.terms is not None and form.is_known:
            rest = self._due(due.terms)
            scaled = _are_scaled(_factors(form), rest.factors)
            found = None if scaled else self._of_terms(form, rest)
            found = found or self._of_constants(form, due, rest)
        return (
            found
            or self._of_parameters(due)
            or self._of_table(due)
            or self._of_residual(due)
            or (self._of_terms(form, rest) if rest is not None else None)
        )

    def _key(self, value: str, index: Index) -> Key:
        element: Key = self._values[value][index].tobytes()
        return element

    def _due(self, due: Sequence[GraphTerm]) -> _Due:
        factors: dict[Key, int] = {}
        terms: dict[Key, GraphTerm] = {}
        constant = 0
        for term in due:
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
        have = _factors(form)
        wrong = [key for key in have if have[key] != due.factors.get(key, 0)]
        missing = [key for key in due.factors if key not in have]
        steps = groupby(form.terms, lambda term: (term.step.instruction, term.step.rank))
        for _, group in steps:
            terms = list(group)
            bad = [term for term in terms if term.element.tobytes() in wrong]
            if bad:
                return self._of_step(terms, bad[0], due, missing, form)
        if missing:
            return self._missing(missing, due, form)
        return None

    def _of_step(
        self,
        terms: Sequence[StreamTerm],
        bad: StreamTerm,
        due: _Due,
        missing: Sequence[Key],
        form: Form,
    ) -> Explanation:
        """Return what is wrong with a step: its weights if its activations are due, else its activations."""
        key = bad.element.tobytes()
        step = bad.step.instruction
        who = f"{self._program.describe(step)} "
        if key in due.factors and bad.factor == due.factors[key]:
            return self._repeated(bad, due, form)
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

    def _repeated(self, bad: StreamTerm, due: _Due, form: Form) -> Explanation:
        """Return that a term is added again."""
        key = bad.element.tobytes()
        again = [term for term in form.terms if term.element.tobytes() == key and term is not bad][-1]
        who = self._program.describe(again.step.instruction)
        first = bad.step.instruction
        before = "the same instruction" if first == again.step.instruction else f"instruction {first}"
        text = (
            f"{who} adds {self._held(again)}, times {again.factor}, which {before} has added and is due once"
        )
        return Explanation("extra", again.step.instruction, _loader(again.source), text)

    def _missing(self, missing: Sequence[Key], due: _Due, form: Form) -> Explanation:
        term = due.terms[missing[0]]
        factor = f" times {due.factors[missing[0]]}{_weight(term)}" if form.is_sum else ""
        count = f"; {len(missing):,} terms are missing" if len(missing) > 1 else ""
        last = max((each.step.instruction for each in form.terms), default=None)
        after = (
            "the accumulator has no term"
            if last is None
            else f"the last instruction that adds a term is {self._program.describe(last)}"
        )
        text = f"no instruction adds {self._named(term)}{factor}, which was due{count}; {after}"
        return Explanation("missing", None, None, text)

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
        row = self._lane % shape[0]
        if any(int(bad.weight.values[row, term.lane % shape[1]]) != term.factor for term in terms):
            return ""  # the ALU scales the sum
        fit = np.flatnonzero(
            np.all([blocks[:, row, lane] == factor for lane, factor in lanes.items()], axis=0)
        )
        here = (bad.weight.address - tensor.address) // bad.weight.values.size
        return (
            f": it reads weight block {here} of {name} where block {fit[0]} was due" if len(fit) == 1 else ""
        )

    # The rest of the sum, and what follows

    def _of_constants(self, form: Form, due: GraphElement, rest: _Due) -> Explanation | None:
        """Compare what a sum has beside its terms: the bias, and products of padding."""
        held = self._record.parameters
        if not form.is_sum:
            return self._of_padding(form)
        if held is None or held.values is None or due.parameters is None:
            return None
        have = form.constant + int(held.values[Parameter.BIAS, self._lane])
        want = rest.constant + int(due.parameters[Parameter.BIAS])
        if have == want:
            return None
        sums = f"bias and padding add up to {have:,}, where {want:,} was due"
        padded = [term for term in form.padded if self._number(term.element)]
        if padded and form.constant != rest.constant:
            term = padded[0]
            place = f"padding in {self._place(term.source, 'INP', term.lane)}, times {term.factor}"
            who = self._program.describe(term.step.instruction)
            text = f"{who} adds {place}; {sums}"
            return Explanation("constant", term.step.instruction, _loader(term.source), text)
        text = f"the STORE adds the bias in ACC element {held.place}{self._filled(held)}; {sums}"
        return Explanation("constant", None, _loader(held), text)

    def _of_padding(self, form: Form) -> Explanation | None:
        """Return which padding is a member of a maximum, and above the least value."""
        members: list[tuple[int, int | None, int]] = [
            (step.instruction, step.instruction, value) for step, value in form.filled
        ]
        for term in form.padded:
            members.append((term.step.instruction, _loader(term.source), self._number(term.element)))
        for instruction, loader, value in members:
            if value > BYTES[0]:
                by = "" if loader is None else f", with which instruction {loader} pads"
                who = self._program.describe(instruction)
                text = f"{who} takes {value} into a maximum{by}, where {BYTES[0]} was due"
                return Explanation("constant", instruction, loader, text)
        return None

    def _of_other_form(self, form: Form) -> Explanation:
        """Return that a sum stands where a maximum was due, or the reverse."""
        have, want = ("sum", "maximum") if form.is_sum else ("maximum", "sum")
        step = form.terms[0].step.instruction
        text = f"{self._program.describe(step)} adds to a {have}, where a {want} was due"
        return Explanation("extra", step, _loader(form.terms[0].source), text)

    def _number(self, element: Elements) -> int:
        """Return the value of an element that is a constant."""
        return int(self._domain.functions.least[element["function"]])

    def _of_parameters(self, due: GraphElement) -> Explanation | None:
        held = self._record.parameters
        if held is None and due.parameters is not None:
            return Explanation("parameter", None, None, "the STORE does not requantise, which was due")
        if held is None or due.parameters is None or held.values is None:
            return None
        words = held.values[:, self._lane]
        for parameter in (Parameter.MULTIPLIER, Parameter.SHIFT, Parameter.CLIP):
            have, want = int(words[parameter]), int(due.parameters[parameter])
            if have != want:
                text = (
                    f"the STORE requantises by the parameters in ACC elements {held.place} to "
                    f"{held.place + len(Parameter) - 1}{self._filled(held)}: {parameter.name.lower()} {have} "
                    f"where {want} was due"
                )
                return Explanation("parameter", None, _loader(held), text)
        return None

    def _of_table(self, due: GraphElement) -> Explanation | None:
        held = self._record.table
        if held is None and due.table is not None:
            return Explanation("table", None, None, "the STORE looks nothing up, where a table was due")
        if held is None or due.table is None:
            return None
        have, want = np.roll(held.values, len(held.values) // 2), due.table
        wrong = np.flatnonzero(have != want)
        if not wrong.size:
            return None
        first = int(wrong[0])
        text = (
            f"the STORE looks up the table from TABLE element {held.place} on{self._filled(held)}: "
            f"{int(have[first])} for {first - len(want) // 2} where {int(want[first])} was due"
        )
        return Explanation("table", None, _loader(held), text)

    def _of_residual(self, due: GraphElement) -> Explanation | None:
        held = self._record.residual
        if held is None and due.added is not None and self._record.parameters is not None:
            name, index = due.added
            return Explanation(
                "residual", None, None, f"the STORE adds no {name}{list(index)}, which was due"
            )
        if held is None or due.added is None or held.values[self._lane].tobytes() == self._key(*due.added):
            return None
        name, index = due.added
        has = f"{self._named_element(held.values[self._lane])}, in {self._place(held, 'RES', self._lane)}"
        text = f"the STORE adds {has}, where {name}{list(index)} was due"
        return Explanation("residual", None, _loader(held), text)

    # Names

    def _named(self, term: GraphTerm) -> str:
        return f"{term.value}{list(term.index)}"

    def _held(self, term: StreamTerm) -> str:
        if term.source is None:
            return f"{self._named_element(term.element)}, {self._at(term.step.address + term.lane)}"
        return f"{self._named_element(term.element)}, in {self._place(term.source, 'INP', term.lane)}"

    def _named_element(self, element: Elements) -> str:
        """Return an element as an element of a value of the graph: of one that the sum reads, or else of one
        that is in DRAM before the layer."""
        others = (name for name in self._standing if name not in self._values)
        for name in (*self._values, *others):
            values = self._values[name] if name in self._values else self._value(name)
            same = np.flatnonzero(values.reshape(-1) == element)
            if same.size:
                index = np.unravel_index(same[0], values.shape)
                return f"{name}{[int(each) for each in index]}"
        return "an element of no value of the graph"

    def _value(self, name: str) -> Elements:
        return DemandedValues(self._domain, self._graph, [name]).take(name)

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


def _factors(form: Form) -> dict[Key, int]:
    """Return what a sum multiplies each element by, by key; 1 for each member of a maximum."""
    factors: dict[Key, int] = {}
    for term in form.terms:
        key = term.element.tobytes()
        factors[key] = factors.get(key, 0) + term.factor if form.is_sum else 1
    return {key: factor for key, factor in factors.items() if factor}


def _are_scaled(have: Mapping[Key, int], due: Mapping[Key, int]) -> bool:
    """Whether the factors are the due factors times a common power of two, which the requantisation can
    undo."""
    if set(have) != set(due):
        return False
    mantissas = {(frexp(have[key] / due[key])) for key in due}
    return len(mantissas) <= 1 and all(mantissa == 0.5 for mantissa, _ in mantissas)
