"""The tasks that are tuned, and the targets on which."""

from collections.abc import Mapping

import numpy as np

from vdla.compiler.network.stages import parts_of, tasks_of
from vdla.compiler.tasks.base import Task
from vdla.compiler.tasks.convolution import ConvolutionTask
from vdla.compiler.tasks.pooling import MaximumTask, PoolingTask, pools_by_multiplier
from vdla.compiler.te.operators.sizes import Convolution, Pooling
from vdla.explore.sweep.specification import Conv
from vdla.explore.sweep.workloads import MOBILENET, RESNET18, conv_graph
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.presets import DEFAULT, SMALL
from vdla.hw.spec.target import Target

KIB = 1 << 10
BUFFERS = {
    "inp_buffer_bytes": (16, 32, 64),
    "wgt_buffer_bytes": (32, 64, 128, 256),
    "acc_buffer_bytes": (32, 64, 128),
}
BUSES = (64, 128, 256)
LATENCIES = (20, 40, 100, 200, 400)
BEATS = (1, 2, 4)  # cycles of each
PRESETS = (DEFAULT, SMALL)
TOKENS = 128  # of the encoder

_POINTWISE = {
    "P1": (112, 32, 64),
    "P2": (56, 64, 128),
    "P3": (56, 128, 128),
    "P4": (28, 128, 256),
    "P5": (28, 256, 256),
    "P6": (14, 256, 512),
    "P7": (14, 512, 512),
    "P8": (7, 512, 1024),
    "P9": (7, 1024, 1024),
}
_CONVS = {
    **{name: conv for name, conv in RESNET18.items() if name != "C1"},
    "P0": Conv(channels=3, outputs=32, size=224, stride=2),
    **MOBILENET,
    **{
        name: Conv(channels=channels, outputs=outputs, size=size, kernel=1)
        for name, (size, channels, outputs) in _POINTWISE.items()
    },
}
_POOLINGS = {
    "M1": Pooling(64, 112, 112, (3, 3), (2, 2), (1, 1, 1, 1)),
    "M2": Pooling(128, 56, 56, (2, 2), (2, 2)),
}
_PRODUCTS = {"E1": (256, 256), "E2": (256, 1024), "E3": (1024, 256), "E4": (64, 128)}


def tasks_on(target: Target) -> dict[str, Task]:
    """Return the tasks as a target carries them out: C2 to C12 of ResNet-18; the layers of MobileNet (P0 its
    first, D depthwise, P pointwise); max poolings; products of an encoder."""
    tasks: dict[str, Task] = {}
    for name, conv in _CONVS.items():
        (tasks[name],) = tasks_of(parts_of(conv_graph(name, conv), target)[1])
    for name, size in _POOLINGS.items():
        tasks[name] = MaximumTask(size) if pools_by_multiplier(target.config, size) else PoolingTask(size)
    for name, (channels, outputs) in _PRODUCTS.items():
        tasks[name] = ConvolutionTask(Convolution(channels, TOKENS, 1, outputs, (1, 1)))
    return tasks


def drawn(seed: int) -> Target:
    """Return a target with the default target's array, whose buffers, bus and memory are drawn at random."""
    rng = np.random.default_rng(seed)
    sizes = {name: int(rng.choice(choices)) * KIB for name, choices in BUFFERS.items()}
    config = DEFAULT.with_changes(name=f"drawn-{seed}", bus_bits=int(rng.choice(BUSES)), **sizes)
    memory = MemoryParameters(latency=int(rng.choice(LATENCIES)), cycles_per_beat=int(rng.choice(BEATS)))
    return Target(config, memory)


def targets(seeds: int) -> Mapping[str, Target]:
    """Return the presets, and so many targets drawn at random."""
    chosen = [*map(Target, PRESETS), *map(drawn, range(seeds))]
    return {target.name: target for target in chosen}
