"""Why an element differs: the first term that a stream computes otherwise than the graph.

The launch is interpreted once more, up to the layer, and the operands of the wrong element are noted. Its
terms are compared with the graph's terms; then the constants, the parameters, the table, and what is added
last. Where the first wrong operand is a result that never left the chip, the STORE that wrote it is explained
in the same way.
"""

from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from vdla.compiler.graph.nodes import Graph
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.numerics import add_residual
from vdla.hw.spec.vocabulary import MemoryType, Parameter
from vdla.prove.domain import Domain
from vdla.prove.elements import Elements
from vdla.prove.functions import BYTES
from vdla.prove.graph_terms import GraphElement, GraphRead, GraphTerm, Index, Residual, element_of
from vdla.prove.launches import DifferenceError, StreamProof, WrongElement
from vdla.prove.machine import StreamMachine
from vdla.prove.memory import NO_WRITER, Dram
from vdla.prove.naming import Names, loader_of
from vdla.prove.polynomials import (
    CONSTANT,
    Monomial,
    Polynomials,
    agree,
    likeness,
    monomial_of,
    ratio_of,
    root_of,
)
from vdla.prove.proof import Explanation
from vdla.prove.stream_forms import Form, Lane, Read, StreamTerm
from vdla.prove.stream_terms import ON_CHIP, Recorder, Trail, accumulator_of
from vdla.runtime.module.plan import Plan


@dataclass(frozen=True)
class _Target:
    """A byte that a STORE wrote, and what it should hold.

    Attributes:
        store: position of the STORE.
        element, lane: the byte: an element of DRAM, counted from the first activation on, or of INP.
        due: elements of the graph, one of which the byte should hold.
    """

    store: int
    element: int
    lane: int
    due: tuple[tuple[str, Index], ...]


@dataclass(frozen=True)
class _Due:
    """What a sum has to hold.

    Attributes:
        polynomial: the coefficients of its monomials.
        terms: the terms of each product of roots, with the elements that they multiply.
    """

    polynomial: Mapping[Monomial, int]
    terms: Mapping[Monomial, Sequence[tuple[GraphTerm, tuple[Elements, ...]]]]

    def factor(self, monomial: Monomial) -> int:
        """Return the number that the terms of a product of roots have together."""
        return sum(term.factor for term, _ in self.terms[monomial])


def explained(domain: Domain, plan: Plan, graph: Graph, wrong: WrongElement) -> Explanation | None:
    """Return why an element differs; None if no operand differs in a way that is looked for.

    Args:
        domain: of the proof that names the element.
        graph: the graph for the target.
    """
    if wrong.writer == NO_WRITER:
        unwritten = f"{wrong.value}{list(wrong.index)}"
        return Explanation("missing", None, None, f"no instruction of {wrong.stream} writes {unwritten}")
    element, lane = divmod(wrong.place, plan.config.element_bytes(MemoryType.OUT))
    target: _Target | None = _Target(wrong.writer, element, lane, ((wrong.value, wrong.index),))
    explanation, outer, holds = None, "", ""
    while target is not None:
        machine = _recorded(domain, plan, graph, wrong, target)
        form = Lane(machine, target.lane).form(machine.steps)
        explainer = Explainer(domain, graph, machine, wrong, target.lane)
        dues = [element_of(graph, *each, set(wrong.standing)) for each in target.due]
        number = explainer.likest(form, dues)
        inner = explainer.explain(form, dues[number])
        if inner is None:
            break
        if explanation is None:
            holds = _holds(explainer.names, wrong, machine)
        else:
            value, index = target.due[number]
            who = f"{wrong.program.describe(target.store)} writes another value than {value}{list(index)}"
            outer = f"{explanation.text}; {who} for it: "
        explanation, target = replace(inner, text=f"{outer}{inner.text}"), explainer.computed
    return None if explanation is None else replace(explanation, text=f"{explanation.text}{holds}")


def _recorded(domain: Domain, plan: Plan, graph: Graph, wrong: WrongElement, target: _Target) -> Recorder:
    """Return a machine that has noted the operands of a byte."""
    machines: list[Recorder] = []

    def machine_of(stream: str, config: AcceleratorConfig, shared: Domain, dram: Dram) -> StreamMachine:
        if stream != wrong.stream:
            return StreamMachine(config, shared, dram)
        element = accumulator_of(wrong.program, target.store, target.element, dram.low)
        steps = Trail(wrong.program, wrong.order, dram.constants).steps(target.store, element)
        machines.append(Recorder(config, shared, dram, steps=steps, store=target.store, element=element))
        return machines[-1]

    with suppress(DifferenceError):  # which is `wrong` once more
        StreamProof(domain, plan, graph, machine_of=machine_of).run()
    return machines[0]


def _holds(names: Names, wrong: WrongElement, machine: Recorder) -> str:
    """Return which element of the value a byte holds, if it holds another of them."""
    index = names.index_of(wrong.value, machine.dram.elements[wrong.place])
    return "" if index is None else f"; the byte holds {wrong.value}{list(index)}"


class Explainer:
    """Compares what a stream computed of an element with what the graph does.

    Args:
        domain: of the proof.
        graph: the graph for the target.
        machine: which noted the operands.
        wrong: the element that differs in DRAM.
        lane: of the element that is explained.

    Attributes:
        names: of elements and their places.
        computed: the first wrong operand, if a STORE computed it on chip and the graph has no such value.
    """

    def __init__(
        self, domain: Domain, graph: Graph, machine: Recorder, wrong: WrongElement, lane: int
    ) -> None:
        self._polynomials = Polynomials(domain.functions)
        self._program, self._record, self._lane = wrong.program, machine.record, lane
        self._standing = wrong.standing
        self.names = Names(domain, graph, wrong, machine.dram.constants)
        self.computed: _Target | None = None

    def likest(self, form: Form, dues: Sequence[GraphElement]) -> int:
        """Return the number of the element of the graph that has most of the terms of a form."""
        if len(dues) == 1:
            return 0
        have = [self._polynomial(each) for each in form.sums]
        shares = [
            max(likeness(polynomial, self._due(each).polynomial) for polynomial in have for each in due.sums)
            for due in dues
        ]
        return shares.index(max(shares))

    def explain(self, form: Form, due: GraphElement) -> Explanation | None:
        """Return the first difference of a lane, which steps made of `form`; None if there is none."""
        self.names.values(due.reads)
        explanation, rest = None, None
        if form.is_known and due.is_known:
            dues = [self._due(each) for each in due.sums]
            has_terms = any(each.terms for each in form.sums)
            if has_terms and (form.members is None) != (len(dues) == 1 and due.members is None):
                explanation = self._of_other_form(form)
            elif form.members is None and len(dues) == 1:
                rest = dues[0]
                explanation = self._of_sum(form, rest, due)
            else:
                explanation = self._of_members(form, dues, due)
        return (
            explanation
            or self._of_parameters(due)
            or self._of_table(due)
            or self._of_residual(due)
            or (self._of_terms(form, rest) if rest is not None else None)
        )

    def _polynomial(self, form: Form) -> dict[Monomial, int]:
        terms = ((term.factor, [read.element for read in term.reads]) for term in form.terms)
        return self._polynomials.of(terms, form.constant)

    def _due(self, due: GraphElement) -> _Due:
        terms: dict[Monomial, list[tuple[GraphTerm, tuple[Elements, ...]]]] = {}
        products = []
        for term in due.terms or ():
            elements = tuple(self.names.element(read) for read in term.reads)
            products.append((term.factor, elements))
            if elements and all(element["kind"] for element in elements):
                terms.setdefault(monomial_of(elements), []).append((term, elements))
        return _Due(self._polynomials.of(products), terms)

    # Terms

    def _of_sum(self, form: Form, rest: _Due, due: GraphElement) -> Explanation | None:
        """Return the first difference of a sum: of its terms, then of its constants."""
        ratio = ratio_of(self._polynomial(form), rest.polynomial)
        if ratio is None:
            return self._of_terms(form, rest)
        return self._of_constants(form, due, rest) if not ratio else None

    def _of_members(self, form: Form, dues: Sequence[_Due], due: GraphElement) -> Explanation | None:
        """Return the first wrong member of a maximum, or a missing member."""
        sums = [each for each in form.sums if each.terms]
        have = [self._polynomial(each) for each in sums]
        missing = [
            number
            for number, each in enumerate(dues)
            if not any(agree(polynomial, each.polynomial) for polynomial in have)
        ]
        for member, polynomial in zip(sums, have, strict=True):
            if not any(agree(polynomial, each.polynomial) for each in dues):
                likest = max(
                    (dues[number] for number in missing or range(len(dues))),
                    key=lambda each: likeness(polynomial, each.polynomial),
                )
                return self._of_terms(member, likest) or self._of_constants(member, due, likest)
        if missing:
            return self._missing_member(form, due.sums[missing[0]], len(missing))
        first = next((each for each in dues if sums and agree(have[0], each.polynomial)), None)
        return self._of_padding(form) or (None if first is None else self._of_constants(sums[0], due, first))

    def _missing_member(self, form: Form, due: GraphElement, count: int) -> Explanation:
        more = f"; {count:,} members are missing" if count > 1 else ""
        name = f"{due.value}{list(due.index)}"
        text = f"no instruction takes {name} into the maximum, which was due{more}; {self._last(form)}"
        return Explanation("missing", None, None, text)

    def _of_terms(self, form: Form, due: _Due) -> Explanation | None:
        """Return the first wrong term of a sum, or a missing term."""
        have = self._polynomial(form)
        keys = {*have, *due.polynomial} - {CONSTANT}
        wrong = {key for key in keys if have.get(key, 0) != due.polynomial.get(key, 0)}
        missing = [key for key in due.terms if key in wrong and key not in have]
        steps = groupby(form.terms, lambda term: (term.step.instruction, term.step.rank))
        for _, group in steps:
            terms = list(group)
            bad = [term for term in terms if term.monomial in wrong]
            if bad:
                return self._of_step(terms, bad[0], due, missing, form)
        if missing:
            return self._missing(missing, due, form)
        return self._of_remainder(wrong, due, form)

    def _of_step(
        self,
        terms: Sequence[StreamTerm],
        bad: StreamTerm,
        due: _Due,
        missing: Sequence[Monomial],
        form: Form,
    ) -> Explanation:
        """Return what is wrong with a step: its weights if its activations are due, else its activations."""
        key, step = bad.monomial, bad.step.instruction
        who = f"{self._program.describe(step)} "
        wanted = due.terms.get(key, ())
        read = {each.element.tobytes() for each in bad.reads}
        is_due = any({each.tobytes() for each in elements} == read for _, elements in wanted)
        if is_due and bad.factor == due.factor(key) and _others(form, bad):
            return self._repeated(bad, form)
        if is_due and bad.weight is not None:
            return self._of_weight(terms, bad, due)
        if is_due:
            times = f"{bad.factor} times, where {due.factor(key)} times was due"
            have = f"adds {self.names.held(*bad.reads)} {times}"
            return Explanation("weight", step, loader_of(bad.reads[0].operand), f"{who}{have}")
        same = [each for each in missing if due.factor(each) == bad.factor] or list(missing)
        same = [key] if wanted else same
        if not same:
            text = f"{who}adds {self.names.held(*bad.reads)}, where no further term was due"
            return Explanation("extra", step, loader_of(bad.reads[0].operand), text)
        term = due.terms[same[0]][0][0]
        wrong = self._wrong_read(bad, [each for key in same for each in due.terms[key]])
        verb = "reads" if len(bad.reads) == 1 else "multiplies"
        text = f"{who}{verb} {self.names.held(*bad.reads)}, where {self.names.term(term)} was due"
        return Explanation("activation", step, loader_of(wrong.operand), text)

    def _wrong_read(self, bad: StreamTerm, wanted: Sequence[tuple[GraphTerm, tuple[Elements, ...]]]) -> Read:
        """Return the wrong activation of a term, of which another stands in each wanted term. Note it if the
        stream has computed it on chip."""
        right = {element.tobytes() for _, elements in wanted for element in elements}
        wrong = next((read for read in bad.reads if read.element.tobytes() not in right), bad.reads[0])
        held = {read.element.tobytes() for read in bad.reads}
        due = {
            (read.value, read.index): None
            for term, elements in wanted
            for read, element in zip(term.reads, elements, strict=True)
            if element.tobytes() not in held and read.value not in self._standing
        }
        operand = wrong.operand
        if operand.address == ON_CHIP and due and self.names.place_of(wrong.element) is None:
            self.computed = _Target(operand.loader, operand.place, wrong.lane, tuple(due))
        return wrong

    def _of_weight(self, terms: Sequence[StreamTerm], bad: StreamTerm, due: _Due) -> Explanation:
        """Return that a step multiplies a due activation by a wrong weight."""
        assert bad.weight is not None
        key, step = bad.monomial, bad.step.instruction
        ((term, _), *_), block = due.terms[key], self._due_block(terms, bad, due)
        left = f"{self.names.term(term)}, in {self.names.place(bad.reads[0].operand, bad.reads[0].lane)}"
        what = f"multiplies {left}, by {bad.factor}, in {self.names.place(bad.weight)}"
        right = f", where {due.factor(key)}{_weight(term)} was due{block}"
        text = f"{self._program.describe(step)} {what}{right}"
        return Explanation("weight", step, loader_of(bad.weight), text)

    def _repeated(self, bad: StreamTerm, form: Form) -> Explanation:
        """Return that a term is added again."""
        again = _others(form, bad)[-1]
        who = self._program.describe(again.step.instruction)
        first = bad.step.instruction
        before = "the same instruction" if first == again.step.instruction else f"instruction {first}"
        held = f"{self.names.held(*again.reads)}, times {again.factor}"
        text = f"{who} adds {held}, which {before} has added and is due once"
        return Explanation("extra", again.step.instruction, loader_of(again.reads[0].operand), text)

    def _missing(self, missing: Sequence[Monomial], due: _Due, form: Form) -> Explanation:
        term = due.terms[missing[0]][0][0]
        factor = f" times {due.factor(missing[0])}{_weight(term)}"
        count = f"; {len(missing):,} terms are missing" if len(missing) > 1 else ""
        text = f"no instruction adds {self.names.term(term)}{factor}, which was due{count}; "
        text += self._last(form)
        return Explanation("missing", None, None, text)

    def _last(self, form: Form) -> str:
        """Describe the last instruction that adds a term."""
        steps = [term.step.instruction for each in form.sums for term in each.terms]
        if not steps:
            return "the accumulator has no term"
        return f"the last instruction that adds a term is {self._program.describe(max(steps))}"

    def _due_block(self, terms: Sequence[StreamTerm], bad: StreamTerm, due: _Due) -> str:
        """Return the weight block that was due, if a single block of the tensor holds its factors."""
        assert bad.weight is not None
        if not isinstance(bad.step.form, isa.Gemm):
            return ""
        rows, columns = bad.weight.values.shape
        row, lanes = self._lane % rows, {term.reads[0].lane % columns: term for term in terms}
        if any(int(bad.weight.values[row, lane]) != term.factor for lane, term in lanes.items()):
            return ""  # the ALU scales the sum
        products = {lane: term.monomial for lane, term in lanes.items()}
        factors = {lane: due.factor(key) if key in due.terms else 0 for lane, key in products.items()}
        return self.names.weight_block(bad.weight, row, factors)

    def _of_remainder(self, wrong: Set[Monomial], due: _Due, form: Form) -> Explanation | None:
        """Return the first product of roots whose factors are wrong although each term is due, as where a
        zero point is not subtracted."""
        reads = {
            root_of(element): f"{read.value}{list(read.index)}"
            for terms in due.terms.values()
            for term, elements in terms
            for read, element in zip(term.reads, elements, strict=True)
        }
        have = self._polynomial(form)
        for key in (key for key in due.polynomial if key in wrong):
            what, want = " times ".join(reads[root] for root in key), due.polynomial[key]
            text = f"the factors of {what} add up to {have.get(key, 0)}, where {want} was due; "
            return Explanation("missing", None, None, f"{text}{self._last(form)}")
        return None

    # The rest of the sum, and what follows

    def _of_constants(self, form: Form, due: GraphElement, rest: _Due) -> Explanation | None:
        """Compare what a sum has beside its terms: the bias, and products of padding."""
        held = self._record.parameters
        if held is None or held.values is None or due.parameters is None:
            return None
        bias, constant = int(held.values[Parameter.BIAS, self._lane]), self._polynomial(form)[CONSTANT]
        have = constant + bias
        want = rest.polynomial[CONSTANT] + int(due.parameters[Parameter.BIAS])
        if have == want:
            return None
        sums = f"bias and padding add up to {have:,}, where {want:,} was due"
        padded = [term for term in form.padded if self.names.number(term.reads[0].element)]
        if padded and constant != rest.polynomial[CONSTANT]:
            term, read = padded[0], padded[0].reads[0]
            place = f"padding in {self.names.place(read.operand, read.lane)}, times {term.factor}"
            who = self._program.describe(term.step.instruction)
            text = f"{who} adds {place}; {sums}"
            return Explanation("constant", term.step.instruction, loader_of(read.operand), text)
        text = f"the STORE adds the bias in ACC element {held.place}{self.names.filled(held)}; {sums}"
        return Explanation("constant", None, loader_of(held), text)

    def _of_padding(self, form: Form) -> Explanation | None:
        """Return which padding is a member of a maximum, and above the least value."""
        members: list[tuple[int, int | None, int]] = []
        for each in (each for each in form.sums if not each.terms):
            members += [(step.instruction, step.instruction, value) for step, value in each.filled]
            members += [
                (
                    term.step.instruction,
                    loader_of(term.reads[0].operand),
                    self.names.number(term.reads[0].element),
                )
                for term in each.padded
            ]
        for instruction, loader, value in members:
            if value > BYTES[0]:
                by = "" if loader is None else f", with which instruction {loader} pads"
                who = self._program.describe(instruction)
                text = f"{who} takes {value} into a maximum{by}, where {BYTES[0]} was due"
                return Explanation("constant", instruction, loader, text)
        return None

    def _of_other_form(self, form: Form) -> Explanation:
        """Return that a sum stands where a maximum was due, or the reverse."""
        have, want = ("sum", "maximum") if form.members is None else ("maximum", "sum")
        first = next(term for each in form.sums for term in each.terms)
        step = first.step.instruction
        text = f"{self._program.describe(step)} adds to a {have}, where a {want} was due"
        return Explanation("extra", step, loader_of(first.reads[0].operand), text)

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
                last = held.place + len(Parameter) - 1
                text = (
                    f"the STORE requantises by the parameters in ACC elements {held.place} to {last}"
                    f"{self.names.filled(held)}: {parameter.name.lower()} {have} where {want} was due"
                )
                return Explanation("parameter", None, loader_of(held), text)
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
            f"the STORE looks up the table from TABLE element {held.place} on{self.names.filled(held)}: "
            f"{int(have[first])} for {first - len(want) // 2} where {int(want[first])} was due"
        )
        return Explanation("table", None, loader_of(held), text)

    def _of_residual(self, due: GraphElement) -> Explanation | None:
        held, added = self._record.residual, due.added
        if held is None and added is not None and self._record.parameters is not None:
            text = f"the STORE adds no {added.value}{list(added.index)}, which was due"
            return Explanation("residual", None, None, text)
        if held is None or added is None:
            return None
        element = held.values[self._lane]
        if element.tobytes() == self.names.element(GraphRead(added.value, added.index)).tobytes():
            return self._of_residual_parameters(added)
        has = self.names.held(Read(element, held, self._lane))
        text = f"the STORE adds {has}, where {added.value}{list(added.index)} was due"
        return Explanation("residual", None, loader_of(held), text)

    def _of_residual_parameters(self, added: Residual) -> Explanation | None:
        held = self._record.residual_parameters
        if held is None or held.values is None:
            return None
        words = [int(word) for word in held.values[:, 0]]
        have = np.array(
            [[add_residual(int(byte), int(residual), words) for residual in BYTES] for byte in BYTES]
        )
        wrong = np.argwhere(have != added.results)
        if not len(wrong):
            return None
        row, column = wrong[0].tolist()
        place = f"ACC elements {held.place} to {held.place + len(Parameter) - 1}{self.names.filled(held)}"
        text = (
            f"the STORE adds the residual by the parameters in {place}: {have[row, column]} for {BYTES[row]} "
            f"and a residual of {BYTES[column]}, where {added.results[row, column]} was due"
        )
        return Explanation("parameter", None, loader_of(held), text)


def _weight(term: GraphTerm) -> str:
    return f" ({term.weight})" if term.weight else ""


def _others(form: Form, term: StreamTerm) -> list[StreamTerm]:
    """Return the other terms of a sum that multiply the same roots."""
    key = term.monomial
    return [each for each in form.terms if each is not term and each.monomial == key]
