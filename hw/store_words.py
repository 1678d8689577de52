"""The instructions of the store unit, as its components decode them."""

from amaranth.hdl import Cat, Const, Mux, Value
from amaranth.lib import data
from amaranth.utils import exact_log2

from vdla.hw.layouts import decode
from vdla.hw.spec import encoding, isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import Extension, NormalParameter, Statistic

SHARED = tuple(name for name in isa.field_names(isa.Normalise) if name in isa.field_names(isa.Store))
"""The fields that STOREs and NORMALISEs have in common."""


def is_normalise(config: AcceleratorConfig, word: Value) -> Value:
    """Return whether an instruction of the store unit is a NORMALISE; never where there are none."""
    if not config.has(Extension.NORMALISE):
        return Const(0)
    return decode(isa.Instruction, config, word).opcode == isa.Opcode.NORMALISE


def decode_shared(config: AcceleratorConfig, word: Value) -> data.View:
    """Return a view as a STORE of an instruction of the store unit.

    Of a NORMALISE, only the fields of SHARED and the flags are right. Its encoding may have them elsewhere.
    """
    view = decode(isa.Store, config, word)
    if not config.has(Extension.NORMALISE):
        return view
    bits, chosen = [*word], is_normalise(config, word)
    for name in SHARED:
        here, there = (encoding.field_of(form, name, config) for form in (isa.Store, isa.Normalise))
        if here.start != there.start:
            for bit in range(here.width):
                bits[here.start + bit] = Mux(chosen, word[there.start + bit], word[here.start + bit])
    return data.View(view.shape(), Cat(bits))


def writes_normalised(config: AcceleratorConfig, word: Value) -> Value:
    """Return whether an instruction of the store unit is a NORMALISE that writes outputs."""
    if not config.has(Extension.NORMALISE):
        return Const(0)
    return is_normalise(config, word) & (decode(isa.Normalise, config, word).normal != 0)


def gathers_only(config: AcceleratorConfig, word: Value) -> Value:
    """Return whether an instruction of the store unit is a NORMALISE that writes nothing."""
    return is_normalise(config, word) & ~writes_normalised(config, word)


def normal_base(config: AcceleratorConfig, word: Value) -> Value:
    """Return the first of the parameters of normalisation of a NORMALISE that has them."""
    return (decode(isa.Normalise, config, word).normal - 1) << exact_log2(len(NormalParameter))


def works_on_powers(statistic: Value, writes: Value) -> Value:
    """Return whether NORMALISEs of a kind turn values into powers: to sum them up, or to write them."""
    powers, greatest = (statistic == kind for kind in (Statistic.POWERS, Statistic.GREATEST))
    return powers | (greatest & writes)
