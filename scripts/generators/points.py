"""Programs at random points of spaces that are derived from tensor expressions."""

import random

from vdla.compiler.codegen.derived.kernels import kernels_of
from vdla.compiler.codegen.derived.points import Points
from vdla.compiler.ir.nodes import Func
from vdla.compiler.te.tensor import Tensor
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.target import Target

MOST = 60  # points of a space, half of them at random


def program_at_random(output: Tensor, config: AcceleratorConfig, rng: random.Random) -> Func:
    """Return the program of a point of the space of an operator that is one kernel.

    Raises:
        IrError: there is none: instructions do not compute it, or it does not fit the memories.
    """
    (kernel,) = kernels_of(output, config)
    points = Points(kernel, Target(config), most=MOST, seed=rng.getrandbits(32))
    return points.program(points.point(rng.randrange(len(points))))
