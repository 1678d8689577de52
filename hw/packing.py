"""Two products of one input in one multiplier, as sums over a block need them."""

from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Mux, Value

from vdla.hw.spec.config import AcceleratorConfig


@dataclass(frozen=True, slots=True)
class Packing:
    """How the weights w0 and w1 of two neighbouring columns share a multiplier.

    The wide factor is (w1 << shift) + u0, with u0 = w0 + bias, which is never negative and needs no borrow.
    The product with x is (w1 * x << shift) + u0 * x. From bit `shift` on it is w1 * x + carried, where
    carried = u0 * x >> shift. The low bits of w1 * x, made of logic, tell carried.

    Attributes:
        shift: place of the second weight.
        overlap: bits of the first product that reach beyond `shift`.
        bias: what makes a weight of the first column not negative: half the range of a weight.
    """

    shift: int
    overlap: int
    bias: int

    def factor(self, first: Value, second: Value) -> Value:
        """Return the wide factor of two weights, the first as `biased` gives it."""
        return Cat(first, Const(0, self.shift - len(first)), second).as_signed()

    def low_product(self, second: Value, factor: Value) -> Value:
        """Return the lowest `overlap` bits of a product, without a multiplier."""
        rows: list[Value] = [
            Cat(Const(0, place), Mux(second[place], factor[: self.overlap - place], 0))
            for place in range(self.overlap)
        ]
        return sum(rows, start=Const(0, 1))[: self.overlap] if rows else Const(0, 1)

    def parts(self, product: Value, low: Value) -> tuple[Value, Value, Value]:
        """Return the product with the wide factor in three parts: from `shift` on; carried; below `shift`."""
        upper, lower = product[self.shift :].as_signed(), product[: self.shift]
        if self.overlap:
            return upper, (upper[: self.overlap] - low)[: self.overlap].as_signed(), lower
        return upper, lower[-1].as_signed(), lower

    def sums(self, upper: Value, carried: Value, lower: Value, inputs: Value) -> tuple[Value, Value]:
        """Return the sums of both columns' products, from the sums of their parts and of the inputs."""
        bias = self.bias.bit_length() - 1
        return (carried << self.shift) + lower - (inputs << bias), upper - carried


def packing(config: AcceleratorConfig) -> Packing:
    """Return the packing of a configuration whose multipliers are packed."""
    product = config.inp_bits + config.wgt_bits
    shift = min(config.packed_bits - config.wgt_bits, product)
    return Packing(shift, product - shift, 1 << config.wgt_bits - 1)


def biased(config: AcceleratorConfig, weights: Value) -> Value:
    """Return a weight element as the multiplier array takes it: where products are packed, with the sign bit
    of every weight of even columns inverted."""
    if not config.packed_bits:
        return weights
    bits, columns = config.wgt_bits, config.block_out
    half = config.block_in * bits
    column = sum(1 << (place + 1) * bits - 1 for place in range(config.block_in))
    return weights ^ sum(column << 2 * half * pair for pair in range(columns // 2))
