"""What kind of instruction a word is: its unit, and whether it ends the stream."""

from collections.abc import Collection
from functools import reduce
from itertools import groupby
from operator import and_, or_

from amaranth.hdl import Const, Module, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vdla.hw.layouts import decode
from vdla.hw.signatures import kind_layout
from vdla.hw.spec import encoding, isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.meaning import RESTRICTIONS, Restriction, members, restrictions_of
from vdla.hw.spec.memories import loaded_by
from vdla.hw.spec.vocabulary import Extension, Unit


class Classifier(wiring.Component):
    """Tell what dispatch must know of an instruction.

    Parameters:
        config: the accelerator.

    Members:
        word: the instruction.
        kind: its kind.

    Timing: combinational.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        super().__init__({"word": In(config.instruction_bits), "kind": Out(kind_layout())})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        word = decode(isa.Load, self.config, self.word)
        m.d.comb += [
            self.kind.load.eq(
                (word.opcode == isa.Opcode.LOAD) & _among(word.memory_type, loaded_by(Unit.LOAD, self.config))
                | self._gathers(word)
            ),
            self.kind.store.eq(self._stores(word)),
            self.kind.finish.eq(word.opcode == isa.Opcode.FINISH),
            self.kind.invalid.eq(~self._meaningful()),
        ]
        return m

    def _gathers(self, word: data.View) -> Value:
        """Build the test whether `word` is a GATHER; the opcode means nothing where there are none."""
        return word.opcode == isa.Opcode.GATHER if self.config.has(Extension.GATHER) else Const(0)

    def _stores(self, word: data.View) -> Value:
        """Build the test whether the store unit executes `word`."""
        normalises = [isa.Opcode.NORMALISE] if self.config.has(Extension.NORMALISE) else []
        return reduce(or_, (word.opcode == opcode for opcode in (isa.Opcode.STORE, *normalises)))

    def _meaningful(self) -> Value:
        """Build the test of RESTRICTIONS: whether an instruction means something."""
        tests: list[Value] = []
        for restricted, forms in groupby(isa.instructions_of(self.config), RESTRICTIONS.__contains__):
            if restricted:
                tests += [self._is_meaningful(form) for form in forms]
            else:
                opcode = decode(isa.Instruction, self.config, self.word).opcode
                tests.append(_among(opcode, [form.opcode for form in forms]))
        return reduce(or_, tests)

    def _is_meaningful(self, form: type[isa.Instruction]) -> Value:
        """Build the test whether this is an instruction of a restricted `form` and means something."""
        word = decode(form, self.config, self.word)
        allowed = (self._is_allowed(form, word, rule) for rule in restrictions_of(form, self.config))
        return reduce(and_, allowed, word.opcode == form.opcode)

    def _is_allowed(self, form: type[isa.Instruction], word: data.View, rule: Restriction) -> Value:
        """Build the test of a restriction."""
        value = word[rule.field]
        allowed = _among(value, rule.allowed(self.config))
        if rule.moot:
            kind = encoding.field_of(form, rule.field, self.config).kind
            allowed |= (word[rule.moot] == 0) & _among(value, members(kind, self.config))
        return allowed if rule.of is None else allowed | (word.memory_type != rule.of)


def _among(value: Value, members: Collection[int]) -> Value:
    """Return whether `value` equals one of `members`; false if there are none."""
    if len(members) == 1:
        return value == next(iter(members))
    found = 0
    for member in members:
        found |= value == member
    return found
