"""What the steps of a stream make of a byte: a sum of products, or the greatest of sums."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from vdla.hw.spec import isa
from vdla.hw.spec.vocabulary import AluOpcode
from vdla.prove.elements import ELEMENT, LARGEST_DEGREE, Elements
from vdla.prove.indices import window_terms
from vdla.prove.polynomials import Monomial, monomial_of
from vdla.prove.stream_terms import NOTHING, Operand, Recorder, Step, is_fresh


@dataclass(frozen=True)
class Read:
    """An element that a step read.

    Attributes:
        element: element[].
        operand: that held it.
        lane: of the element in its operand.
    """

    element: Elements
    operand: Operand
    lane: int


@dataclass(frozen=True)
class StreamTerm:
    """A term of a sum of one lane: a product of activations times a number.

    Attributes:
        reads: the activations.
        factor: the number.
        step: the step that added the term.
        weight: operand that held the number; None if there is none.
    """

    reads: tuple[Read, ...]
    factor: int
    step: Step
    weight: Operand | None = None

    @property
    def monomial(self) -> Monomial:
        """The roots of its activations."""
        return monomial_of(read.element for read in self.reads)


@dataclass
class Form:
    """What steps make of one lane: a sum, or the greatest of sums.

    Attributes:
        terms: of the sum, with activations.
        constant: the rest of the sum.
        padded: the terms of `constant` that read padding; their reads are constants.
        filled: the steps of LOADs that padded the accumulator, and with what.
        members: of a maximum, sums. None: this is a sum.
        is_known: whether it has either form.
    """

    terms: list[StreamTerm] = field(default_factory=list)
    constant: int = 0
    padded: list[StreamTerm] = field(default_factory=list)
    filled: list[tuple[Step, int]] = field(default_factory=list)
    members: "list[Form] | None" = None
    is_known: bool = True

    @property
    def sums(self) -> "list[Form]":
        """The members of a maximum, or the sum itself."""
        return [self] if self.members is None else self.members


class Lane:
    """The lane of an accumulator, in terms of the operands that a recorder noted."""

    def __init__(self, machine: Recorder, lane: int) -> None:
        self._config, self._record = machine.config, machine.record
        self._functions, self._lane = machine.domain.functions, lane

    def form(self, steps: Sequence[Step]) -> Form:
        """Return what steps make of the lane."""
        form = Form()
        for step in steps:
            if is_fresh(step.form):
                form = Form()
            match step.form:
                case isa.Gemm() | isa.Depthwise():
                    form.is_known &= form.members is None
                    self._add_products(form, step)
                case isa.Load() | isa.Gather():
                    self._load(form, step)
                case isa.Alu() as it:
                    form = self._alu(form, step, it)
        return form

    def _add(self, form: Form, term: StreamTerm) -> None:
        """Add a term whose reads may be constants."""
        constants = [read for read in term.reads if not read.element["kind"]]
        number = term.factor * prod(
            int(self._functions.least[read.element["function"]]) for read in constants
        )
        if len(constants) < len(term.reads):
            reads = tuple(read for read in term.reads if read.element["kind"])
            if number:
                form.terms.append(replace(term, reads=reads, factor=number))
            return
        form.constant += number
        if any(read.operand.address == NOTHING for read in constants):
            form.padded.append(term)

    def _add_products(self, form: Form, step: Step) -> None:
        if getattr(step.form, "reset", 0):
            return
        weight = self._record.weights[step.instruction, step.wgt]
        for number, place in enumerate(step.src):
            source = self._record.inputs[step.instruction, place]
            for lane, at in self._pairs(step, number):
                read = Read(source.values[lane], source, lane)
                if weight.values.dtype == ELEMENT:
                    flat = int(np.ravel_multi_index(at, weight.values.shape))
                    self._add(form, StreamTerm((read, Read(weight.values[at], weight, flat)), 1, step))
                elif weight.values[at]:
                    self._add(form, StreamTerm((read,), int(weight.values[at]), step, weight))

    def _pairs(self, step: Step, number: int) -> Iterator[tuple[int, tuple[int, int]]]:
        """Yield the lanes of an input that a step multiplies for this lane, and the weight of each."""
        block_out, block_in = self._config.block_out, self._config.block_in
        row, first = self._lane % block_out, self._lane // block_out * block_in
        if isinstance(step.form, isa.Gemm):
            yield from ((first + k, (row, k)) for k in range(block_in))
            return
        assert isinstance(step.form, isa.Depthwise), f"{step.form} multiplies"
        window = self._config.window
        for element, channel, place in window_terms(window, step.form.more_rows, step.form.wide).tolist():
            if element == number:
                yield first + row - row % window.channels + channel, (row, place)

    def _load(self, form: Form, step: Step) -> None:
        if step.address == NOTHING:
            form.constant += self._record.padding[step.instruction]
            form.filled.append((step, form.constant))
        else:
            operand = self._record.loaded[step.instruction, step.dst]
            self._add(form, StreamTerm((Read(operand.values[self._lane], operand, self._lane),), 1, step))

    def _alu(self, form: Form, step: Step, it: isa.Alu) -> Form:
        """Apply a step of the ALU: sums and products of sums, maxima of sums."""
        other = Form(constant=it.imm) if it.use_imm else self.form(step.operand or ())
        are_sums = form.members is None and other.members is None
        match AluOpcode(it.alu_opcode):
            case AluOpcode.MIN | AluOpcode.MAX if it.use_imm:
                return form  # clipping changes no term
            case AluOpcode.MAX:
                result = Form(members=[*form.sums, *other.sums])
            case AluOpcode.ADD if are_sums:
                result = Form(
                    [*form.terms, *other.terms],
                    form.constant + other.constant,
                    [*form.padded, *other.padded],
                    [*form.filled, *other.filled],
                )
            case AluOpcode.MUL if are_sums:
                result = _product(form, other)
            case AluOpcode.SHR if are_sums and not other.terms and other.constant <= 0:
                result = _product(form, Form(constant=1 << -other.constant))
            case _:
                result = Form(is_known=False)
        result.is_known &= form.is_known and other.is_known
        return result


def _product(form: Form, other: Form) -> Form:
    """Return the product of two sums; it is known up to the degree of a proof."""
    terms = [
        replace(left, reads=left.reads + right.reads, factor=left.factor * right.factor)
        for left in form.terms
        for right in other.terms
    ]
    for sum_, number in ((form, other.constant), (other, form.constant)):
        terms += [replace(term, factor=term.factor * number) for term in sum_.terms if number]
    padded = [*form.padded, *other.padded]
    is_known = all(len(term.reads) <= LARGEST_DEGREE for term in terms)
    return Form(terms, form.constant * other.constant, padded, [*form.filled, *other.filled], None, is_known)
