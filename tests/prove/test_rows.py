"""Streams with NORMALISEs compute softmax and layer normalisation for every input; streams with faults do not."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pytest

from vdla.hw.spec import codec, isa, normalisation, numerics
from vdla.hw.spec.normalisation import NormalOperands
from vdla.hw.spec.presets import DEFAULT
from vdla.hw.spec.vocabulary import Extension, MemoryType, Statistic
from vdla.prove.axioms import Axiom
from vdla.prove.domain import Domain
from vdla.prove.elements import Elements
from vdla.prove.errors import ProofError
from vdla.prove.machine import StreamMachine
from vdla.prove.memory import Dram, Lanes, spare_bytes
from vdla.prove.operators import layer_normalization, softmax
from vdla.runtime.host.int8_normalisation import moments_operands
from vdla.sim.decoded import decode_stream

CONFIG = replace(DEFAULT, extensions=(*DEFAULT.extensions, Extension.NORMALISE))
LANES = CONFIG.block_out
WIDTH = LANES + 5  # of a row, in two elements
ROWS = 3
RNG = np.random.default_rng(3)
POWERS = np.sort(RNG.integers(0, 1 << 16, 256))[::-1].astype(np.uint16)
FACTORS = RNG.integers(-9000, 9000, WIDTH).astype(np.int16)
ADDENDS = RNG.integers(-(1 << 22), 1 << 22, WIDTH).astype(np.int32)
EPSILON = 77
FIRST, LAST = 1, 2
"""Sets of parameters that leave out nothing, and the lanes behind the row in its last element."""
NORMAL = 3
"""The first set of parameters of normalisation, of the first element of a row; the next is of the last."""
VALUES = 4 * (NORMAL + 1)
"""The accumulators of values: all first elements of rows, then all last elements."""
TABLES, ACTIVATIONS, END = 4096, 8192, 12288
"""Bytes of DRAM: parameters are in front."""


def requantisation(left_out: np.ndarray) -> np.ndarray:
    """Return int64[4, LANES]: parameters that keep bytes, and leave out lanes."""
    words = np.array(numerics.requantise_parameters(0, 1, 0, 0, -128, 127), np.int64)
    words = np.repeat(words[:, None], LANES, 1)
    words[3] |= left_out.astype(np.int64) << normalisation.LEFT_OUT_BIT
    return words


def normal_set(columns: np.ndarray, operands: NormalOperands) -> np.ndarray:
    """Return int64[4, LANES]: the parameters of columns, int64[2, n] factors and addends."""
    own = np.zeros((2, LANES), np.int64)
    own[:, : columns.shape[1]] = columns
    words = normalisation.normal_parameters(operands._replace(factor=own[0], addend=own[1]))
    return np.stack([np.broadcast_to(word, LANES) for word in words])


@dataclass
class Case:
    """A stream that normalises rows; a test may change what it holds.

    Attributes:
        gathers: statistic, element of the rows (0 or 1) and `anew` of each NORMALISE that gathers.
        divides: the statistic of the outputs.
        sets: parameters, in the order of their numbers.
        powers: the table.
        sets_of: the set of parameters that requantises each element.
        normals: the set of parameters that normalises each element.
    """

    gathers: list[tuple[Statistic, int, bool]]
    divides: Statistic
    sets: list[np.ndarray]
    powers: np.ndarray = field(default_factory=POWERS.copy)
    sets_of: list[int] = field(default_factory=lambda: [FIRST, LAST])
    normals: list[int] = field(default_factory=lambda: [NORMAL, NORMAL + 1])


def gathers(*statistics: Statistic) -> list[tuple[Statistic, int, bool]]:
    return [(statistic, number, number == 0) for statistic in statistics for number in range(2)]


def case(divides: Statistic, columns: np.ndarray, operands: NormalOperands) -> Case:
    nothing = np.zeros(LANES, bool)
    sets = [requantisation(nothing), requantisation(np.arange(LANES) >= WIDTH - LANES)]
    sets += [normal_set(part, operands) for part in (columns[:, :LANES], columns[:, LANES:])]
    before = (divides,) if divides is Statistic.MOMENTS else (Statistic.GREATEST, Statistic.POWERS)
    return Case(gathers(*before), divides, sets)


def softmax_case() -> Case:
    columns = np.repeat([[FACTORS[0]], [ADDENDS[0]]], WIDTH, 1)
    return case(Statistic.POWERS, columns, NormalOperands(0, 0, 0, 0, 0, 0))


def moments_case() -> Case:
    return case(Statistic.MOMENTS, np.stack((FACTORS, ADDENDS)), moments_operands(WIDTH, EPSILON, 1))


def instructions_of(given: Case) -> list[isa.Instruction]:
    """Return the stream."""

    def load(memory: MemoryType, count: int, sram: int, byte: int) -> isa.Instruction:
        base = byte // CONFIG.element_bytes(memory)
        return isa.Load(
            memory_type=memory, sram_base=sram, dram_base=base, y_size=1, x_size=count, x_stride=count
        )

    def normalise(statistic: Statistic, number: int, **fields: int) -> isa.Instruction:
        return isa.Normalise(
            memory_type=MemoryType.OUT,
            sram_base=VALUES + number * ROWS,
            parameters=given.sets_of[number],
            y_size=1,
            x_size=ROWS,
            x_stride=ROWS,
            table=0 if statistic is Statistic.MOMENTS else 1,
            statistic=statistic,
            **fields,
        )

    out = (ACTIVATIONS + END) // 2 // LANES
    return [
        load(MemoryType.ACC, 4 * len(given.sets), 0, 0),
        load(MemoryType.TABLE, isa.POWER_TABLE_ELEMENTS, 0, TABLES),
        load(MemoryType.ACC_8BIT, 2 * ROWS, VALUES, ACTIVATIONS),
        *(normalise(statistic, number, anew=anew) for statistic, number, anew in given.gathers),
        *(
            normalise(given.divides, number, normal=normal, dram_base=out + number * ROWS)
            for number, normal in enumerate(given.normals)
        ),
    ]


def outcome(domain: Domain, x: Elements, given: Case) -> Elements:
    """Return what the stream makes of rows, elements[ROWS, WIDTH]."""
    image = np.zeros(END, np.uint8)
    words = np.concatenate(given.sets).astype("<i4")
    image[: words.nbytes] = words.view(np.uint8).reshape(-1)
    image[TABLES : TABLES + given.powers.nbytes] = given.powers.astype("<u2").view(np.uint8)
    dram = Dram(domain, image, ACTIVATIONS, END, 256, spare_bytes(CONFIG))
    places = np.arange(2 * ROWS * LANES).reshape(2, ROWS, LANES).swapaxes(0, 1).reshape(ROWS, -1)[:, :WIDTH]
    for place, element in zip(places.reshape(-1).tolist(), x.reshape(-1), strict=True):
        single = np.array([[element]])
        dram.write(ACTIVATIONS + place, Lanes(single, domain.values(single).residues))
    stream = b"".join(
        codec.encode(each, CONFIG).to_bytes(CONFIG.instruction_bytes, "little")
        for each in instructions_of(given)
    )
    decoded = decode_stream(np.frombuffer(stream, np.uint8).reshape(-1, CONFIG.instruction_bytes), CONFIG)
    StreamMachine(CONFIG, domain, dram).run(decoded, range(len(decoded.opcode)))
    return dram.elements.reshape(-1)[places + (END - ACTIVATIONS) // 2]


def expected(domain: Domain, x: Elements, given: Case) -> Elements:
    """Return what the graph's operator makes of rows."""
    if given.divides is Statistic.MOMENTS:
        return layer_normalization(domain, x, FACTORS, ADDENDS, epsilon=EPSILON, centred=1)
    return softmax(domain, x, POWERS, FACTORS[0], ADDENDS[0], axis=1)


def holds(given: Case) -> np.ndarray:
    """Return for which outputs the stream computes the operator, bool[ROWS, WIDTH]."""
    domain = Domain(1)
    x = domain.fresh("x", (ROWS, WIDTH))
    x[1, 2:4] = domain.apply(x[1, :2], domain.functions.number(np.maximum(np.arange(-128, 128), 0)))
    x[2, 5] = domain.constants(np.array(7))
    same: np.ndarray = outcome(domain, x, given) == expected(domain, x, given)
    assert domain.failure_probability < 2.0**-80
    assert {Axiom.ORDER_OF_ROW, Axiom.NORMALISED_ROW} <= set(domain.axioms)
    return same


CASES = {"softmax": softmax_case, "layer normalisation": moments_case}


@pytest.mark.parametrize("name", CASES)
def test_a_stream_computes_the_operator(name):
    assert holds(CASES[name]()).all()


@pytest.mark.parametrize("name", CASES)
def test_the_order_in_which_values_are_gathered_does_not_count(name):
    given = CASES[name]()
    given.gathers = [(statistic, 1 - number, number == 0) for statistic, number, _ in given.gathers]
    assert holds(given).all()


def test_a_greatest_value_may_be_gathered_twice():
    given = softmax_case()
    given.gathers.insert(2, (Statistic.GREATEST, 0, False))
    assert holds(given).all()


@pytest.mark.parametrize("name", CASES)
def test_rows_of_constants_are_numbers(name):
    domain, given = Domain(1), CASES[name]()
    x = domain.constants(RNG.integers(-128, 128, (ROWS, WIDTH)))
    result = outcome(domain, x, given)
    assert (result["kind"] == 0).all()
    assert (result == expected(domain, x, given)).all()


def _wrong_table(given: Case) -> None:
    given.powers[200] ^= 1


def _wrong_factor(given: Case) -> None:
    given.sets[NORMAL][1, 3] += 1


def _wrong_addend(given: Case) -> None:
    given.sets[NORMAL - 1][0, 0] -= 1


def _missing_element(given: Case) -> None:
    given.gathers.pop()


def _repeated_element(given: Case) -> None:
    given.gathers.append((*given.gathers[-1][:2], False))


def _anew_twice(given: Case) -> None:
    given.gathers[-1] = (*given.gathers[-1][:2], True)


def _lane_not_left_out(given: Case) -> None:
    given.sets[LAST - 1][3, WIDTH - LANES] &= ~(1 << normalisation.LEFT_OUT_BIT)


def _lane_left_out(given: Case) -> None:
    given.sets[FIRST - 1][3, 7] |= 1 << normalisation.LEFT_OUT_BIT


def _wrong_normal_set(given: Case) -> None:
    given.normals[0] = NORMAL + 1


def _wrong_requantisation(given: Case) -> None:
    given.sets[FIRST - 1][0, 2] += 1


def _wrong_statistic(given: Case) -> None:
    given.divides = Statistic.GREATEST if given.divides is Statistic.POWERS else Statistic.POWERS
    given.gathers = gathers(*Statistic)


def _wrong_count(given: Case) -> None:
    given.sets[NORMAL - 1][2] += 1


def _wrong_epsilon(given: Case) -> None:
    given.sets[NORMAL][3] += 1


def _greatest_of_one_element(given: Case) -> None:
    given.gathers.pop(1)


FAULTS: dict[str, tuple[str, Callable[[Case], None]]] = {
    "a wrong table": ("softmax", _wrong_table),
    "a greatest value of one element": ("softmax", _greatest_of_one_element),
    "a wrong count": ("layer normalisation", _wrong_count),
    "a wrong epsilon": ("layer normalisation", _wrong_epsilon),
    **{
        f"{fault.__name__[1:].replace('_', ' ')}, {name}": (name, fault)
        for name in CASES
        for fault in (
            _wrong_factor,
            _wrong_addend,
            _missing_element,
            _repeated_element,
            _anew_twice,
            _lane_not_left_out,
            _lane_left_out,
            _wrong_normal_set,
            _wrong_requantisation,
        )
    },
    "a wrong statistic": ("softmax", _wrong_statistic),
}
ONLY_SOME = ("wrong factor", "wrong addend", "wrong count", "wrong epsilon", "wrong normal set")
"""Faults of outputs, which leave the outputs of other columns right."""


@pytest.mark.parametrize("title", FAULTS)
def test_a_stream_with_a_fault_computes_something_else(title):
    name, fault = FAULTS[title]
    given = CASES[name]()
    fault(given)
    same = holds(given)
    if any(part in title for part in ONLY_SOME):
        assert not same.all()
        assert same.any()
    else:
        assert not same.any()


def _without_anew(given: Case, number: int) -> None:
    given.gathers[number] = (*given.gathers[number][:2], False)


def _without_greatest(given: Case) -> None:
    del given.gathers[:2]


def _without_sums(given: Case) -> None:
    given.gathers.clear()


def _greatest_after_powers(given: Case) -> None:
    given.gathers.append((Statistic.GREATEST, 0, True))


UNCOVERED: dict[str, tuple[str, Callable[[Case], None], str]] = {
    "no beginning": ("softmax", partial(_without_anew, number=0), "that no NORMALISE has begun"),
    "no beginning of powers": ("softmax", partial(_without_anew, number=2), "that no NORMALISE has begun"),
    "no beginning of moments": (
        "layer normalisation",
        partial(_without_anew, number=0),
        "that no NORMALISE has begun",
    ),
    "no greatest value": ("softmax", _without_greatest, "that no NORMALISE has begun"),
    "no moments": ("layer normalisation", _without_sums, "that no NORMALISE has begun"),
    "another greatest value": ("softmax", _greatest_after_powers, "from several greatest values"),
}


@pytest.mark.parametrize("title", UNCOVERED)
def test_statistics_that_a_proof_does_not_cover_are_refused(title):
    name, fault, message = UNCOVERED[title]
    given = CASES[name]()
    fault(given)
    with pytest.raises(ProofError, match=rf"^instruction \d+ \(NORMALISE\(.*: .*{message}"):
        holds(given)


@pytest.mark.parametrize("name", CASES)
def test_statistics_of_earlier_rows_count_without_anew(name):
    given = CASES[name]()
    given.gathers += [(given.divides, number, False) for number in range(2)]
    assert not holds(given).any()
    given.gathers[-2] = (given.divides, 0, True)
    assert holds(given).all()
