"""Networks that tests export: networks written by hand, and a small MobileNet between floats."""

from functools import cache

import numpy as np

from tests.compiler.network.compiled import plan_of
from tests.compiler.network.graphs import HANDMADE, Net
from vdla.compiler.graph.nodes import Graph
from vdla.hw.spec.presets import TINY
from vdla.runtime.host.normalisation import softmax_powers
from vdla.runtime.module.plan import Plan

MOBILE, FLOAT_SOFTMAX = "small MobileNet", "softmax of floats"
BATCHED = TINY.with_changes(name="tiny in batches", batch=2)


def mobile(net: Net) -> Graph:
    """Return convolutions by channel and of pixels, with a residual, between floats."""
    scale, zero = net.constant(np.array(1.5, np.float32)), net.constant(np.array(3, np.int8))
    x = net.input(1, 3, 16, 16, dtype="float32")
    x = net.op("QuantizeLinear", (x, scale, zero), axis=0)
    x = net.conv(x, 8, (3, 3), strides=(2, 2), pads=(1, 1, 1, 1))
    x = net.conv(net.conv(x, 8, (3, 3), pads=(1, 1, 1, 1), group=8), 16)
    y = net.conv(net.conv(x, 16, (3, 3), pads=(1, 1, 1, 1), group=16), 16)
    x = net.average(net.add(x, y), (8, 8))
    x = net.matmul(net.reshape(x, 1, 16), 10)
    powers = net.constant(softmax_powers(np.float32(0.05)))
    return net.graph(net.op("DequantizedSoftmax", (x, powers), axis=1), x)


def float_softmax(net: Net) -> Graph:
    """Return a matrix product, and a softmax of floats on the host."""
    scale, zero = net.constant(np.array(0.05, np.float32)), net.constant(np.array(0, np.int8))
    x = net.matmul(net.input(1, 16), 10)
    return net.graph(net.op("Softmax", (net.op("DequantizeLinear", (x, scale, zero), axis=0),), axis=1))


BUILDERS = {MOBILE: mobile, FLOAT_SOFTMAX: float_softmax, **HANDMADE}


@cache
def graph_of(title: str) -> Graph:
    """Return a network."""
    return BUILDERS[title](Net())


@cache
def exported(title: str, batched: bool = False) -> Plan:
    """Return the plan of a network, for an accelerator with batches of 1 or 2."""
    return plan_of(graph_of(title), BATCHED if batched else TINY)
