"""What normalises a row: the mean of its values, and the reciprocal of its sum or of its deviation."""

from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from vdla.hw.row_statistics import sums_layout
from vdla.hw.scaling import choose, delayed
from vdla.hw.spec.normalisation import (
    COUNT_BITS,
    INTERVAL_BITS,
    MANTISSA_BITS,
    MEAN_BITS,
    MEAN_FRACTION_BITS,
    POWER_FRACTION_BITS,
    ROOT_SHIFT,
    STANDARD_FRACTION_BITS,
    SUM_BITS,
    reciprocal_roots,
    reciprocals,
)
from vdla.hw.spec.vocabulary import Statistic

HALF = 16
"""Bits of a factor that fits a DSP."""
EXPONENT_BITS = 4
SHIFT_BITS = 6
SPREAD_BITS = 50
"""Of `normalisation.spread`, which is not negative; even, so that its bits form pairs."""
PAIR_LEVELS = (16, 8, 4, 2, 1)
"""Pairs of bits by which a number is shifted to the left, one choice after another."""
MEAN_STAGE, MANTISSA_STAGE, SHIFT_STAGE = 13, 14, 15
"""Cycles from the sums of a row to each part of its scale."""
FLAG_STAGE = MEAN_STAGE - 1

# What the shift of a row is before the exponent of its count, and the bits by which its number was shifted,
# are subtracted. The number is then in the highest bits of SPREAD_BITS.
_MOST_ROOT = ROOT_SHIFT + MEAN_FRACTION_BITS - STANDARD_FRACTION_BITS + (SPREAD_BITS - MANTISSA_BITS) // 2
_MOST_SUM = 2 * MANTISSA_BITS - 1 - POWER_FRACTION_BITS + SPREAD_BITS - MANTISSA_BITS

NEUTRAL_MANTISSA, NEUTRAL_SHIFT = 4, 0
"""With these, a value 2^8 becomes a value 2^10; see `vdla.hw.normalise`."""


def numbers_layout() -> data.StructLayout:
    """The parameters of normalisation that a row has but once; see `normalisation.NormalOperands`."""
    return data.StructLayout(
        {"count": COUNT_BITS, "exponent": EXPONENT_BITS, "reciprocal": COUNT_BITS, "epsilon": SUM_BITS}
    )


class _Products(NamedTuple):
    """Partial products, of low and high halves of one factor or of both."""

    squares: tuple[Signal, Signal]
    means: tuple[Signal, Signal]
    total: tuple[Signal, Signal, Signal]


class RowScaler(wiring.Component):
    """Compute `normalisation.row_scale`, one row per cycle.

    Members:
        statistic: of all rows on their way.
        sums: of a row.
        numbers: its parameters, in the cycle of `sums`.
        normalises: whether the row of FLAG_STAGE cycles before is one; else its scale is neutral.
        mean, mantissa, shift: its scale, MEAN_STAGE, MANTISSA_STAGE and SHIFT_STAGE cycles behind its sums.

    Timing: never stalls. Stages, each with a register behind it:

    1. the choice of sums and parameters by the statistic
    2. partial products
    3. their sums, but for the square of the total; epsilon minus the middle of that square
    4. the difference to the rest of the square; the mean is shifted by multiples of 4
    5. the spread; the rest of the mean's shift
    6. to 9.: the spread is shifted to the left by 32, 16, 8, 4 and 2 bits; first, the mean is rounded
    10. the place in the table, and the row's shift
    11. the table's interval, in two stages
    13. the fall within the interval; the mean
    14. the mantissa
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "statistic": In(Statistic),
                "sums": In(sums_layout()),
                "numbers": In(numbers_layout()),
                "normalises": In(1),
                "mean": Out(signed(MEAN_BITS)),
                "mantissa": Out(MANTISSA_BITS),
                "shift": Out(SHIFT_BITS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._roots = self.statistic == Statistic.MOMENTS
        self._normalises = delayed(m, self.normalises, SHIFT_STAGE - MEAN_STAGE, "normalises")
        numbers, total, squares = self._choose(m)
        products = _multiplied(m, numbers, total, squares)
        exponents = delayed(m, numbers.exponent, 8, "exponent")
        self._mean(m, products, exponents)
        number = self._spread(m, products, numbers)
        self._invert(m, *self._aligned(m, number), exponents[-1])
        return m

    def _choose(self, m: Module) -> tuple[data.View, Signal, Signal]:
        """Return parameters, total and squares such that the spread is what is inverted, and the mean right,
        whatever the statistic."""
        numbers = Signal(numbers_layout(), reset_less=True)
        total = Signal(signed(len(self.sums.total)), reset_less=True)
        squares = Signal(SUM_BITS, reset_less=True)
        given = self.numbers
        m.d.sync += [
            total.eq(self.sums.total),
            squares.eq(Mux(self._roots, self.sums.squares, self.sums.powers)),
            numbers.exponent.eq(given.exponent),
            numbers.count.eq(Mux(self._roots, given.count, 1)),
            numbers.reciprocal.eq(Mux(self._roots, given.reciprocal, 0)),
            numbers.epsilon.eq(Mux(self._roots, given.epsilon, 0)),
        ]
        return numbers, total, squares

    def _mean(self, m: Module, products: _Products, exponents: list[Value]) -> None:
        """Shift and round the product of total and reciprocal; delay it until it is needed."""
        low, high = products.means
        places = 2  # of the exponent, in the second step
        product = Signal(signed(len(high) + HALF), reset_less=True)
        coarse = Signal(MEAN_BITS + (1 << places), reset_less=True)
        fine = Signal(MEAN_BITS + 1, reset_less=True)
        rounded = Signal(signed(MEAN_BITS), reset_less=True)
        first = COUNT_BITS - MEAN_FRACTION_BITS - 1
        windows = [product[first + step :][: len(coarse)] for step in range(0, COUNT_BITS, 1 << places)]
        m.d.sync += [
            product.eq((high << HALF) + low),
            coarse.eq(choose(windows, exponents[2][places:])),
            fine.eq(choose([coarse[step:][: len(fine)] for step in range(1 << places)], exponents[3])),
            rounded.eq((fine + 1)[1:]),
        ]
        *_, held = delayed(m, rounded, MEAN_STAGE - 1 - 6, "mean")
        m.d.sync += self.mean.eq(Mux(self._normalises[0], held, 0))

    def _spread(self, m: Module, products: _Products, numbers: data.View) -> Signal:
        """Return what is inverted, at least 0."""
        low, high = products.squares
        whole = Signal(SUM_BITS + COUNT_BITS, name="count_squares", reset_less=True)
        uses_total, epsilon = Signal(reset_less=True), Signal(SUM_BITS, name="epsilon_1", reset_less=True)
        lowest, middle, highest = products.total
        outer = Signal(len(lowest) + len(highest), reset_less=True)
        inner = [
            Signal(signed(len(middle) + HALF + 3), name=f"inner_{stage}", reset_less=True)
            for stage in range(2)
        ]
        without = Signal(signed(SPREAD_BITS), reset_less=True)
        spread = Signal(signed(SPREAD_BITS + 1), reset_less=True)
        m.d.sync += [
            uses_total.eq(numbers.reciprocal.any()),
            epsilon.eq(numbers.epsilon),
            whole.eq((high << HALF) + low),
            outer.eq(Mux(uses_total, Cat(lowest, highest), 0)),
            inner[0].eq(epsilon - Mux(uses_total, middle << (HALF + 1), 0)),
            without.eq(whole - outer),
            inner[1].eq(inner[0]),
            spread.eq(without + inner[1]),
        ]
        return spread

    def _aligned(self, m: Module, spread: Signal) -> tuple[Signal, Value]:
        """Return the highest bits of a number behind as many pairs of zeros as it begins with, and how many
        these are."""
        number: Value = Mux(spread[-1], 0, spread[:SPREAD_BITS])
        pairs: list[Value] = []  # bits of the count, the lowest first
        for level, stages in zip(PAIR_LEVELS, (1, 1, 1, 0, 1), strict=True):
            kept = MANTISSA_BITS + 1 + 2 * (level - 1)
            none = ~number[len(number) - 2 * level :].any()
            shifted = Cat(Const(0, 2 * level), number)[: len(number)]
            number = Mux(none, shifted, number)[len(number) - kept :]
            pairs.insert(0, none)
            if stages:
                number = _registered(m, f"by_{level}", number)
                pairs = [_registered(m, f"pairs_{level}", Cat(pairs))]
        assert isinstance(number, Signal)
        return number, Cat(pairs)

    def _invert(self, m: Module, number: Signal, pairs: Value, exponent: Value) -> None:
        """Interpolate in the table, and tell the shift."""
        top, whole = number[-1], number[1:]
        place, zero = Signal(MANTISSA_BITS, reset_less=True), Signal(reset_less=True)
        odd = Mux(self._roots, Cat(0, whole[:-2], 0), Cat(0, number[:-2]))
        m.d.sync += [
            place.eq(Mux(top, Mux(self._roots, whole, Cat(0, whole[:-1])), odd)),
            zero.eq(~number[-2:].any()),
        ]
        self._shift(m, top, pairs, exponent)
        bits = MANTISSA_BITS + INTERVAL_BITS
        intervals = [
            each.value | each.fall << MANTISSA_BITS for each in (*reciprocals(), *reciprocal_roots())
        ]
        m.submodules.intervals = table = Memory(shape=unsigned(bits), depth=len(intervals), init=intervals)
        read, interval = table.read_port(), Signal(bits, reset_less=True)
        within = delayed(m, place[:INTERVAL_BITS], 2, "within")[-1]
        begin, fall = interval[:MANTISSA_BITS], interval[MANTISSA_BITS:]
        product = Signal(2 * INTERVAL_BITS, name="fallen", reset_less=True)
        *_, value = delayed(m, begin, 1, "begin")
        *_, is_zero = delayed(m, zero, 3, "zero")
        m.d.comb += [read.en.eq(1), read.addr.eq(Cat(place[INTERVAL_BITS:], self._roots))]
        m.d.sync += [interval.eq(read.data), product.eq(fall * within)]
        mantissa = Mux(is_zero, 0, value - product[INTERVAL_BITS:])
        mantissa = Mux(self.statistic == Statistic.GREATEST, 1 << MANTISSA_BITS - 1, mantissa)
        m.d.sync += self.mantissa.eq(Mux(self._normalises[1], mantissa, NEUTRAL_MANTISSA))

    def _shift(self, m: Module, top: Value, pairs: Value, exponent: Value) -> None:
        """Tell the row's shift, which depends on how far its number was shifted."""
        raw = Signal(signed(SHIFT_BITS + 1), name="raw_shift", reset_less=True)
        shift = Signal(SHIFT_BITS, name="row_shift", reset_less=True)
        m.d.sync += [
            raw.eq(Mux(self._roots, _MOST_ROOT - exponent - pairs, _MOST_SUM - ~top - (pairs << 1))),
            shift.eq(Mux(raw[-1], 0, raw)),
        ]
        *_, held = delayed(m, shift, SHIFT_STAGE - 1 - 11, "held_shift")
        held = Mux(self.statistic == Statistic.GREATEST, MANTISSA_BITS - 1, held)
        m.d.sync += self.shift.eq(Mux(self._normalises[2], held, NEUTRAL_SHIFT))


def _registered(m: Module, name: str, value: Value) -> Signal:
    held = Signal(len(value), name=name, reset_less=True)
    m.d.sync += held.eq(value)
    return held


def _multiplied(m: Module, numbers: data.View, total: Signal, squares: Signal) -> _Products:
    """Return the partial products, in registers."""
    halves = total[:HALF], total[HALF:].as_signed()

    def product(name: str, left: Value, right: Value) -> Signal:
        held = Signal((left * right).shape(), name=name, reset_less=True)
        m.d.sync += held.eq(left * right)
        return held

    return _Products(
        (
            product("low_squares", squares[:HALF], numbers.count),
            product("high_squares", squares[HALF:], numbers.count),
        ),
        (
            product("low_mean", halves[0], numbers.reciprocal),
            product("high_mean", halves[1], numbers.reciprocal),
        ),
        (
            product("low_square", halves[0], halves[0]),
            product("middle_square", halves[1], halves[0]),
            product("high_square", halves[1], halves[1]),
        ),
    )
