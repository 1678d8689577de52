"""Products of an image with an activation that has a factor for each of its channels, on the accelerator."""

from vdla.compiler.codegen.blocked_layout import blocked_parameters
from vdla.compiler.graph.nodes import Graph, Node
from vdla.compiler.network.placed import OffloadCandidate, Offloaded, Piece, of_channels
from vdla.compiler.tasks.channel_scale_alu import ScalingTask
from vdla.compiler.tasks.channel_scale_multiplier import DiagonalTask, FactorsTask, int8_parts
from vdla.compiler.tasks.constant_operands import channel_masks, constant_inputs, scalar_weights
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import Parameter
from vdla.runtime.layout import IMAGE_RANK

MULTIPLIES = "a batch of 1 and block_in = block_out"


def factor_place(graph: Graph, node: Node) -> int | None:
    """Return which operand of a product, 0 or 1, has a factor for each channel of the other operand, which is
    an image; None if neither has."""
    shapes = [graph.types[name].shape for name in node.inputs[:2]]
    for place in range(2):
        image, factors = shapes[1 - place], shapes[place]
        if len(image) == IMAGE_RANK and image[0] == 1 and factors == (1, image[1], 1, 1):
            return place
    return None


def multiplies(config: AcceleratorConfig) -> bool:
    """Whether the multiplier array can take factors as weights."""
    return config.batch == 1 and config.block_in == config.block_out


def by_channel(candidate: OffloadCandidate, place: int) -> Offloaded:
    """Return the product of an image with the factors in operand `place`, which become diagonal weights."""
    config, (name, layout) = candidate.config, candidate.operand(1 - place)
    zeros = candidate.node.extents("zeros")
    numbers, inputs = int8_parts(-zeros[place]), int8_parts(-zeros[1 - place])
    _, blocks, height, width, *_ = layout.blocks
    words = candidate.constant(2).copy()
    words[Parameter.BIAS] += zeros[0] * zeros[1]
    constants = {
        "P": blocked_parameters(of_channels(words, config.block_out), config),
        "U": channel_masks(config),
        **({"K": scalar_weights(numbers, config)} if numbers else {}),
        **({"C": constant_inputs(inputs, config)} if inputs else {}),
    }
    task = FactorsTask(blocks, height * width, len(numbers), len(inputs))
    return Offloaded(
        candidate.node,
        (Piece(DiagonalTask(blocks)), Piece(task)),
        {"A": (name, layout), "F": candidate.operand(place)},
        candidate.output(),
        constants,
        scratch={"D": blocks * config.block_out**2},
    )


def by_alu(candidate: OffloadCandidate, place: int) -> Offloaded:
    """Return the product of an image with the factors in operand `place`, computed by the ALU."""
    config, (name, layout), zeros = (
        candidate.config,
        candidate.operand(1 - place),
        candidate.node.extents("zeros"),
    )
    _, blocks, height, width, *_ = layout.blocks
    parts = layout.block // config.block_out
    task = ScalingTask(blocks, height * width, parts, (zeros[1 - place], zeros[place]))
    words = of_channels(candidate.constant(2), config.block_out)
    return Offloaded(
        candidate.node,
        (Piece(task),),
        {"A": (name, layout), "F": candidate.operand(place)},
        candidate.output(),
        {"P": blocked_parameters(words, config)},
    )
