"""What the arithmetic promises: the results of `vdla.hw.spec.numerics`, for all operands.

A pipeline gives a result some cycles after its operands. The proofs unroll it: the operands of the watched
result are given in one cycle, other free operands in all cycles before and behind. Nothing in these pipelines
leads back, so that the result depends on the unrolled cycles alone.
"""

from types import SimpleNamespace

from amaranth.hdl import Cat, ClockDomain, Const, Module, Mux, Signal, Value, signed
from amaranth.utils import exact_log2

from vdla.hw.alu import COMPARING, AluLane
from vdla.hw.formal.proof import ConfiguredProof, Proof, implies
from vdla.hw.formal.reference import Number, number, symbolic
from vdla.hw.gemm import MultiplierArray
from vdla.hw.packing import biased
from vdla.hw.requantise import Requantiser
from vdla.hw.residual import ResidualAdder
from vdla.hw.scaling import Limits, clipped, shifted
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.numerics import BYTE_BITS, MULTIPLIER_BITS, SHIFT_BITS
from vdla.hw.spec.timing import REQUANTISE_STAGES, RESIDUAL_STAGES, TABLE_STAGES, alu_delay
from vdla.hw.spec.vocabulary import AluOpcode, Parameter
from vdla.hw.tables import TableLane

ALWAYS = Const(1)


class PipelineProof(Proof):
    """A proof about one result of a pipeline.

    Attributes:
        cycle: counts the cycles; its value in a cycle of an unrolled circuit is a constant.
        reference: the definitions of `numerics` over numbers.
    """

    cycle: Signal
    reference: SimpleNamespace

    def build(self, m: Module) -> None:
        m.domains.sync = domain = ClockDomain(reset_less=True)
        self.ports["clk"] = (domain.clk, None)
        self.cycle = Signal(8)
        m.d.sync += self.cycle.eq(self.cycle + 1)
        fits: list[Value] = []
        self.reference = symbolic(fits)
        self.unroll(m)
        if fits:
            self.claims["reference: numbers fit"] = Cat(fits).all()

    def unroll(self, m: Module) -> None:
        """Add the pipeline, and claims about certain cycles."""
        raise NotImplementedError

    def sampled(self, m: Module, name: str, value: Value, cycle: int) -> Signal:
        """Return what `value` is in a cycle; in the cycles behind it."""
        sample = Signal(value.shape(), name=f"{name}_in_{cycle}")
        with m.If(self.cycle == cycle):
            m.d.sync += sample.eq(value)
        return sample

    def equal(self, name: str, cycle: int, result: Value, expected: Number, where: Value = ALWAYS) -> None:
        """Claim that in a cycle the low bits of `expected` are the result, where a condition holds."""
        bits = len(result)
        low = expected & ((1 << bits) - 1)
        self.claims[name] = implies(
            (self.cycle == cycle) & where, Value.cast(result).as_unsigned() == low.value
        )


class AluProof(PipelineProof):
    """A lane computes an operation as `numerics.alu` defines it.

    Parameters:
        config: the accelerator.
        opcode: the operation.
    """

    def __init__(self, config: AcceleratorConfig, opcode: AluOpcode, only: str | None = None) -> None:
        super().__init__(only)
        self.config, self.opcode = config, opcode

    def unroll(self, m: Module) -> None:
        m.submodules.lane = lane = AluLane(self.config)
        bits, given = self.config.acc_bits, 1
        left, right = (self.free(name, signed(bits)) for name in ("left", "right"))
        m.d.comb += [
            lane.opcode.eq(self.opcode),
            lane.left.eq(left),
            lane.right.eq(~right if self.opcode in COMPARING else right),
        ]
        if hasattr(lane, "advances"):
            m.d.comb += lane.advances.eq(1)
        delay = alu_delay(self.opcode, self.config.alu_stages)
        operands = [left, right]
        if delay:
            operands = [self.sampled(m, value.name, value, given) for value in operands]
        expected = self.reference.alu(self.opcode, *map(number, operands), bits)
        self.equal(f"{self.opcode.name}: as numerics.alu", given + delay, lane.result, expected)


SET = len(Parameter)
GIVEN = 2 * SET
"""The cycle of the watched operands: behind a set of parameters, which may follow another set at once."""


class RequantiserProof(ConfiguredProof, PipelineProof):
    """Outputs are results of `numerics.requantise`, or the low bits of accumulators.

    A set of parameters comes in the cycles before the watched part, and may follow another set. Sets may also
    come behind the part, at any time, as whole sets; they must not change its outputs.

    Operands are small, because solvers do not tell products of many bits apart: values and biases of
    SMALL bits, multipliers of SMALL - 1, shifts up to 3, and whole bytes of the other parameters.
    `ScalingProof` takes numbers of all bits.

    Parameters:
        config: the accelerator.
    """

    SMALL = 4

    def unroll(self, m: Module) -> None:
        m.submodules.requantiser = requantiser = Requantiser(self.config)
        keeps, row = given_sets(self, m)
        part, scales = self.free("part", len(requantiser.part)), self.free("scales")
        m.d.comb += [
            requantiser.part.eq(part),
            requantiser.scales.eq(scales),
            requantiser.keeps.eq(keeps),
            Value.cast(requantiser.row).eq(row),
        ]
        for place, value in enumerate(requantiser.element):
            m.d.comb += value.eq(self._small(self.free(f"value_{place}", 2 * BYTE_BITS), keeps, row))
        element = Value.cast(requantiser.element)
        words = [self.sampled(m, "parameter", element, SET + place) for place in range(SET)]
        samples = [
            self.sampled(m, name, value, GIVEN) for name, value in (("element", element), ("part", part))
        ]
        scaled = self.sampled(m, "scales", scales, GIVEN)
        bits, lanes = self.config.acc_bits, self.config.values_per_store_read
        for lane, output in enumerate(requantiser.outputs):
            value, *parameters = (
                number(word.word_select(samples[1] * lanes + lane, bits).as_signed())
                for word in (samples[0], *words)
            )
            expected = self.reference.requantise(value, parameters, bits)
            end = GIVEN + REQUANTISE_STAGES
            self.equal(f"lane {lane}: as numerics.requantise", end, output, expected, scaled)
            self.equal(f"lane {lane}: the low bits, unless it scales", end, output, value, ~scaled)

    def _small(self, given: Signal, keeps: Value, row: Value) -> Value:
        """Return a small operand made of free bits: a value, or the parameter that stands in `row`."""
        value = given[: self.SMALL].as_signed()
        forms = {
            Parameter.BIAS: value,
            Parameter.MULTIPLIER: given[: self.SMALL - 1],
            Parameter.SHIFT: Cat(given[:2], Const(0, BYTE_BITS - 2), given[BYTE_BITS:]),
            Parameter.CLIP: given,
        }
        for parameter, form in forms.items():
            value = Mux(keeps & (row == parameter), form, value)
        return value


def given_sets(proof: PipelineProof, m: Module) -> tuple[Value, Value]:
    """Return `keeps` and `row` of parameters that come as whole sets; a set ends just before GIVEN."""
    row, cycle, free = Signal(range(SET)), proof.cycle, proof.free("set_starts")
    starts = (cycle == SET) | (free & ((cycle == 0) | (cycle > GIVEN)))
    keeps = Signal()
    m.d.comb += keeps.eq((row != 0) | starts)
    m.d.sync += row.eq(row + keeps)
    return keeps, row


class ScalingProof(PipelineProof):
    """The last stages of requantisation and of residuals: shift, rounding, zero point and limits.

    Parameters:
        bits: of the number that is scaled.
        shift: by how much; a proof for each shift is quicker than a proof for all.
    """

    def __init__(self, bits: int, shift: int, only: str | None = None) -> None:
        super().__init__(only)
        self.bits, self.shift = bits, shift

    def unroll(self, m: Module) -> None:
        product, shift = self.free("product", signed(self.bits)), Const(self.shift, SHIFT_BITS)
        zero, least, greatest = (self.free(name, signed(BYTE_BITS)) for name in ("zero", "least", "greatest"))
        limits = Limits(zero, greatest, Const(1), least, Const(1))
        value, rounds = shifted(m, "lane", product, shift, Const(1))
        result = clipped(m, "lane", value, rounds, limits)
        given, *behind = (
            self.sampled(m, value.name, value, cycle)
            for value, cycle in ((product, 0), (zero, 2), (greatest, 3))
        )
        words = 0, 1, Cat(shift, Const(0, BYTE_BITS - SHIFT_BITS), behind[0]), Cat(least, behind[1])
        expected = self.reference.requantise(number(given), [number(word) for word in words], self.bits)
        self.equal("as numerics.requantise", 4, result, expected)


class ResidualProof(ConfiguredProof, PipelineProof):
    """Outputs are results of `numerics.add_residual`, or the values where nothing is added.

    The parameters come first. In the cycle READ, the watched residual is chosen. Operands are small, for the
    reason that `RequantiserProof` gives: values, residuals and factors of SMALL bits, addends of 2 * SMALL,
    shifts up to 3, and whole bytes of the other parameters.

    Parameters:
        config: the accelerator.
    """

    SMALL = 4
    READ = SET + 2

    def unroll(self, m: Module) -> None:
        m.submodules.adder = adder = ResidualAdder(self.config, 1)
        adds = self.free("adds")
        residual, value = (self.free(name, signed(self.SMALL)) for name in ("residual", "value"))
        m.d.comb += [adder.adds.eq(adds), adder.element[0].eq(residual), adder.values[0].eq(value)]
        words = self._keep(m, adder)
        other = self.sampled(m, "residual", residual, self.READ - 1)
        added = self.sampled(m, "adds", adds, self.READ)
        own = self.sampled(m, "value", value, self.READ + 1)
        expected = self.reference.add_residual(number(own), number(other), words)
        end = self.READ + 1 + RESIDUAL_STAGES
        self.equal("as numerics.add_residual", end, adder.outputs[0], expected, added)
        self.equal("the value, unless it adds", end, adder.outputs[0], number(own), ~added)

    def _keep(self, m: Module, adder: ResidualAdder) -> list[Number]:
        """Give the parameters, one in each of the first cycles."""
        given, words = self.free("word", 4 * BYTE_BITS), []
        forms = {
            Parameter.BIAS: given[: 2 * self.SMALL].as_signed(),
            Parameter.MULTIPLIER: Cat(
                self._extended(given[: self.SMALL]), self._extended(given[self.SMALL : 2 * self.SMALL])
            ),
            Parameter.SHIFT: Cat(given[:2], Const(0, BYTE_BITS - 2), given[BYTE_BITS : 2 * BYTE_BITS]),
            Parameter.CLIP: given[: 2 * BYTE_BITS],
        }
        for row, form in forms.items():
            word = Signal(signed(2 * MULTIPLIER_BITS), name=f"word_{row.name.lower()}")
            m.d.comb += word.eq(form)
            with m.If(self.cycle == row):
                m.d.comb += [adder.keeps.eq(1), Value.cast(adder.row).eq(row), adder.word.eq(word)]
            words.append(number(self.sampled(m, word.name, word, row)))
        return words

    def _extended(self, bits: Value) -> Value:
        """Return bits as a signed factor of all bits."""
        return Cat(bits, bits[-1].replicate(MULTIPLIER_BITS - len(bits)))


class ProductsProof(PipelineProof):
    """Two products that share a multiplier are exact.

    Parameters:
        config: the accelerator; `block_in` is 1, so that a sum is a product.
        factor: the input, signed; a proof for each input is quicker than a proof for all.
    """

    def __init__(self, config: AcceleratorConfig, factor: int, only: str | None = None) -> None:
        super().__init__(only)
        self.config, self.factor = config, factor

    def unroll(self, m: Module) -> None:
        m.submodules.array = array = MultiplierArray(self.config)
        weights = self.free("weights", len(Value.cast(array.wgt)))
        m.d.comb += [
            Value.cast(array.inp).eq(self.factor),
            Value.cast(array.wgt).eq(biased(self.config, weights)),
        ]
        given, bits = self.sampled(m, "weights", weights, 0), self.config.wgt_bits
        for column in range(self.config.block_out):
            weight = number(given.word_select(column, bits).as_signed())
            output = array.sums[0][column]
            self.equal(f"column {column}: the product", self.config.gemm_stages, output, weight * self.factor)


class TableProof(ConfiguredProof, PipelineProof):
    """A value becomes its entry as `numerics.look_up` defines it, or stays.

    The watched element is written in the first cycle, and any other elements behind it. In the cycle READ a
    value is looked up whose entry lies in the watched element.

    Parameters:
        config: the accelerator.
    """

    READ = 2

    def unroll(self, m: Module) -> None:
        m.submodules.lane = lane = TableLane(self.config)
        first = self.cycle == 0
        address, word = self.free("address", len(lane.write.address)), self.free("word", len(lane.write.data))
        kept, element = self.sampled(m, "address", address, 0), self.sampled(m, "word", word, 0)
        m.d.comb += [
            lane.write.address.eq(address),
            lane.write.data.eq(word),
            lane.write.enable.eq(first | (self.free("writes") & (address != kept))),
        ]
        value, table, looks_up = (
            self.free("value", BYTE_BITS),
            self.free("table", len(lane.table)),
            self.free("looks_up"),
        )
        m.d.comb += [lane.value.eq(value), lane.table.eq(table), lane.looks_up.eq(looks_up)]
        given, where = self.sampled(m, "value", value, self.READ), self.sampled(m, "table", table, self.READ)
        entries = Entries(element, self.config.entries)
        expected = self.reference.look_up(number(given), entries)
        low = exact_log2(self.config.entries)
        hits = Cat(given[low:], where) == kept
        end = self.READ + TABLE_STAGES
        looked_up = self.sampled(m, "looks_up", looks_up, end - 1)
        self.equal("as numerics.look_up", end, lane.output, expected, looked_up & hits)
        self.equal("the value, unless it looks up", end, lane.output, number(given), ~looked_up)


class Entries:
    """A table of which one element is known: an index finds its place in the element.

    Parameters:
        element: the element.
        count: entries of an element.
    """

    def __init__(self, element: Value, count: int) -> None:
        self.element, self.count = element, count

    def __getitem__(self, index: Number) -> Number:
        return number(self.element.word_select(index.value[: exact_log2(self.count)], BYTE_BITS))
