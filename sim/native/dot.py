"""The inner product at the heart of GEMM: unsigned 4-tuples times signed 4-tuples, added to 32-bit lanes."""

from collections.abc import Mapping
from dataclasses import dataclass

from llvmlite import ir

from vdla.sim.native.emit import I8, I32, Emitter, splat
from vdla.sim.scratchpads import K_GROUP

VNNI = "llvm.x86.avx512.vpdpbusd"


@dataclass(frozen=True, slots=True)
class Dot:
    """A way to compute `acc[l] + sum over k < 4 of inp[k] * wgt[l][k]`.

    Attributes:
        lanes: accumulators of the widest vector.
        vnni: whether the processor has the instruction for it; else it is spelt out in portable IR.
    """

    lanes: int
    vnni: bool

    def emit(self, e: Emitter, acc: ir.Value, inp: ir.Value, wgt: ir.Value) -> ir.Value:
        """Emit it.

        Args:
            acc: <lanes x i32>.
            inp: i32, four unsigned bytes.
            wgt: <lanes x i32>, four signed bytes each.
        """
        spread = broadcast(e, inp, acc.type.count)
        if self.vnni:
            return e.builder.call(_intrinsic(e, acc.type), [acc, spread, wgt])
        return _spelt_out(e, acc, spread, wgt)


def choose_dot(features: Mapping[str, bool]) -> Dot:
    """Return the best way for a processor with `features` (names as LLVM has them)."""

    def has(*names: str) -> bool:
        return all(features.get(name) for name in names)

    if has("avx512vnni", "avx512vl"):
        return Dot(16, True)
    if has("avxvnni"):
        return Dot(8, True)
    if has("avx512bw"):
        return Dot(16, False)
    return Dot(8 if has("avx2") else 4, False)


def broadcast(e: Emitter, value: ir.Value, lanes: int) -> ir.Value:
    """Return <lanes x type> of one value."""
    vector = ir.VectorType(value.type, lanes)
    single = e.builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(I32, 0))
    return e.builder.shuffle_vector(
        single, ir.Constant(vector, ir.Undefined), splat(0, ir.VectorType(I32, lanes))
    )


def _intrinsic(e: Emitter, vector: ir.VectorType) -> ir.Function:
    name = f"{VNNI}.{32 * vector.count}"
    return e.function.module.globals.get(name) or ir.Function(
        e.function.module, ir.FunctionType(vector, [vector] * 3), name
    )


def _spelt_out(e: Emitter, acc: ir.Value, inp: ir.Value, wgt: ir.Value) -> ir.Value:
    b, lanes = e.builder, acc.type.count
    narrow, wide = ir.VectorType(I8, K_GROUP * lanes), ir.VectorType(I32, K_GROUP * lanes)
    products = b.mul(b.zext(b.bitcast(inp, narrow), wide), b.sext(b.bitcast(wgt, narrow), wide))
    for k in range(K_GROUP):
        places = ir.Constant(ir.VectorType(I32, lanes), [K_GROUP * lane + k for lane in range(lanes)])
        acc = b.add(acc, b.shuffle_vector(products, ir.Constant(wide, ir.Undefined), places))
    return acc
