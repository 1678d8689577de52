"""Residuals in the store unit: another tensor is added to requantised values."""

from typing import NamedTuple

from amaranth.hdl import Const, Module, Mux, Shape, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vdla.hw.scaling import Limits, choose, clipped, delayed, shifted
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.numerics import BYTE_BITS, MULTIPLIER_BITS, SHIFT_BITS
from vdla.hw.spec.vocabulary import Parameter

READ_STAGES = 3
"""Cycles from the address of residuals until their values stand in registers before the multipliers."""

PRODUCT_BITS = BYTE_BITS + MULTIPLIER_BITS


class _Scalar(NamedTuple):
    """A parameter of the sum: where it stands, in which cycle its copy is made, and its value where nothing
    is added. Cycles are counted from the cycle in which the values are there."""

    name: str
    row: Parameter
    first: int
    shape: Shape
    cycle: int
    neutral: int


_FACTOR, _BYTE = signed(MULTIPLIER_BITS), signed(BYTE_BITS)
FACTOR = _Scalar("factor", Parameter.MULTIPLIER, 0, _FACTOR, -1, 1)
OTHER = _Scalar("other", Parameter.MULTIPLIER, MULTIPLIER_BITS, _FACTOR, -1, 0)
ADDEND = _Scalar("addend", Parameter.BIAS, 0, signed(2 * MULTIPLIER_BITS), 1, 0)
SHIFT = _Scalar("shift", Parameter.SHIFT, 0, unsigned(SHIFT_BITS), 2, 0)
ZERO = _Scalar("zero", Parameter.SHIFT, BYTE_BITS, _BYTE, 4, 0)
GREATEST = _Scalar("greatest", Parameter.CLIP, BYTE_BITS, _BYTE, 5, (1 << BYTE_BITS - 1) - 1)
LEAST = _Scalar("least", Parameter.CLIP, 0, _BYTE, 6, -(1 << BYTE_BITS - 1))
SCALARS = (FACTOR, OTHER, ADDEND, SHIFT, ZERO, GREATEST, LEAST)
EARLY = 1
"""Cycles by which a parameter is kept before the values of a read that is issued with it."""

# Parameter `row` of the set comes len(Parameter) + row cycles behind the first read of its STORE. What was
# read in the cycle before that must have copied the old numbers; what is read behind the set copies the new.
assert all(s.cycle < len(Parameter) + s.row + 2 - EARLY for s in SCALARS)
assert all(2 * len(Parameter) + s.cycle >= len(Parameter) + s.row + 1 - EARLY for s in SCALARS)


class ResidualAdder(wiring.Component):
    """Add residuals to values as `vdla.hw.spec.numerics.add_residual` defines it, some values per cycle.

    Parameters:
        config: the accelerator.
        distance: cycles by which a read's values come behind its element.

    Members:
        element: residuals that were read: the element whose address was given a cycle before.
        part: which of its values to add to the values of the next cycle.
        adds: do so; else the values of the next cycle stay as they are.
        values: signed bytes.
        keeps, row, word: keep `word` as parameter `row` of the sum; given when the read of a parameter gives
            its element, `distance` cycles before it would give values.
        outputs: of the values of RESIDUAL_STAGES cycles before.

    Timing: one part per cycle, never stalls. Parameters apply to the reads behind them and not to the reads
    before them. All values share one set of parameters.

    Stages, each with a register behind it:

    1. the element
    2. the choice of the part
    3. the products
    4. the sum of the products
    5. the sum with the addend
    6. the shift by multiples of 8
    7. the rest of the shift
    8. rounding and the zero point
    9. the upper limit
    10. the lower limit
    """

    def __init__(self, config: AcceleratorConfig, distance: int) -> None:
        self.config = config
        self._distance, self._lanes = distance, config.values_per_store_read
        values = config.batch * config.block_out
        super().__init__(
            {
                "element": In(data.ArrayLayout(signed(config.out_bits), values)),
                "part": In(range(max(values // self._lanes, 2))),
                "adds": In(1),
                "values": In(data.ArrayLayout(_BYTE, self._lanes)),
                "keeps": In(1),
                "row": In(Parameter),
                "word": In(signed(config.acc_bits)),
                "outputs": Out(data.ArrayLayout(BYTE_BITS, self._lanes)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        adds = delayed(m, self.adds, 1 + LEAST.cycle, "adds")
        scalars = {
            scalar: self._copy(m, scalar, kept, adds[1 + scalar.cycle])
            for scalar, kept in self._keep(m).items()
        }
        element = Signal(self.element.shape(), reset_less=True)
        m.d.sync += element.eq(self.element)
        for lane in range(self._lanes):
            own = Signal(signed(self.config.out_bits), name=f"residual_{lane}", reset_less=True)
            m.d.sync += own.eq(choose([*element][lane :: self._lanes], self.part))
            total = self._total(m, lane, own, scalars)
            value, rounds = shifted(m, str(lane), total, scalars[SHIFT], Const(1))
            limits = Limits(scalars[ZERO], scalars[GREATEST], Const(1), scalars[LEAST], Const(1))
            m.d.sync += self.outputs[lane].eq(clipped(m, str(lane), value, rounds, limits))
        return m

    def _keep(self, m: Module) -> dict[_Scalar, Signal]:
        """Keep the parameters that are given, late enough for the reads before them."""
        word = Signal(signed(2 * MULTIPLIER_BITS))
        m.d.comb += word.eq(self.word)
        behind = self._distance - EARLY
        *_, late = delayed(m, word, behind, "word")
        *_, keeps = delayed(m, self.keeps, behind, "keeps")
        *_, row = delayed(m, self.row, behind, "row")
        kept = {}
        for scalar in SCALARS:
            kept[scalar] = Signal(scalar.shape, name=f"kept_{scalar.name}", reset_less=True)
            with m.If(keeps & (row == scalar.row)):
                m.d.sync += kept[scalar].eq(late[scalar.first :][: scalar.shape.width])
        return kept

    def _copy(self, m: Module, scalar: _Scalar, kept: Signal, adds: Value) -> Signal:
        """Return a parameter for one part, in the register into which it is copied."""
        copied = Signal(scalar.shape, name=scalar.name, reset_less=True)
        m.d.sync += copied.eq(Mux(adds, kept, scalar.neutral))
        return copied

    def _total(self, m: Module, lane: int, own: Signal, scalars: dict[_Scalar, Signal]) -> Signal:
        """Multiply both, then add the products, then the addend."""
        product, other = (
            Signal(signed(PRODUCT_BITS), name=f"{name}_{lane}", reset_less=True)
            for name in ("product", "other_product")
        )
        both = Signal(signed(PRODUCT_BITS + 1), name=f"both_{lane}", reset_less=True)
        total = Signal(signed(2 * MULTIPLIER_BITS + 1), name=f"total_{lane}", reset_less=True)
        m.d.sync += [
            product.eq(self.values[lane] * scalars[FACTOR]),
            other.eq(own * scalars[OTHER]),
            both.eq(product + other),
            total.eq(both + scalars[ADDEND]),
        ]
        return total
