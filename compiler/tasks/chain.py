"""A depthwise convolution with the 1x1 convolutions around it, as one task.

Expanded channels and the channels of the depthwise convolution never leave the chip: STOREs requantise them
into the input scratchpad, from which the next convolution reads them. A unit is a tile of rows of some blocks
of expanded channels. The convolutions work on it in turn: the expansion, the depthwise convolution one unit
later, the projection two units later. So the store unit requantises a unit while the multipliers work on the
others. The sums of the projection stay in the accumulators over all units of a tile of rows.

The inputs of the depthwise convolution stand in a buffer with its border. Its results overwrite them, inside
the border, since no sum reads an input once all sums of its unit are complete.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

from vdla.compiler.ir.nodes import Func
from vdla.compiler.tasks.base import Choice, PartedTask
from vdla.compiler.tasks.chain_plan import Chain, ChainPlan, ChainTile, chain_tiles
from vdla.compiler.tasks.chain_program import ChainProgram
from vdla.compiler.tasks.convolution import ConvolutionTask
from vdla.compiler.te.operators.narrowing import AddingScale, Narrowing, Scale
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import Extension


@dataclass(frozen=True, slots=True)
class ChainTask(PartedTask[ChainTile]):
    """A depthwise convolution, after a 1x1 convolution, before a 1x1 convolution, or both.

    Attributes:
        chain: the convolutions.
    """

    chain: Chain
    SMALLEST: ClassVar[str] = "a row of a chain of convolutions"

    @property
    def narrowing(self) -> Narrowing:
        """How the sums of the last convolution become results."""
        return self.chain.stages[-1].narrowing

    @property
    def adds_residual(self) -> bool:
        """Whether the STOREs of results add a residual."""
        return isinstance(self.narrowing, AddingScale)

    def narrowed(self, narrowing: Narrowing) -> "ChainTask":
        """Return the task with another narrowing of the last convolution."""
        chain = self.chain
        if chain.projection is None:
            return ChainTask(replace(chain, window=replace(chain.window, narrowing=narrowing)))
        return ChainTask(replace(chain, projection=replace(chain.projection, narrowing=narrowing)))

    def tile(self, config: AcceleratorConfig, copies: int) -> ChainTile | None:
        """Return the tile with the fewest estimated cycles, with `copies` sets of buffers at most; see
        `PartedTask.tile`."""
        return _best_tile(self.chain, config, copies)

    def tiled(self, tile: ChainTile, choice: Choice, config: AcceleratorConfig) -> Func:
        """Return the loop program. Its parameters are the input X, the result Z, and weights and parameters
        of requantisation of each convolution, in blocks: W and P of the last one, W0, P0, W1, P1 of those
        before it, in order."""
        return ChainProgram(ChainPlan(self.chain, tile, config)).program()


def chains(chain: Chain, config: AcceleratorConfig) -> bool:
    """Whether `config` supports convolutions as a chain: values between them are requantised into INP, and
    the depthwise results fit the buffer of its inputs."""
    needed = (Extension.FEEDBACK, Extension.REQUANTISE, Extension.DEPTHWISE)
    size = chain.window.size
    dense = (stage for stage in (chain.expansion, chain.projection) if stage is not None)
    return (
        all(config.has(extension) for extension in needed)
        and config.block_in == config.block_out
        and chain.window.slides
        and size.dilation == (1, 1)
        and not size.skips_rows
        and all(pads < size.kernel[place % 2] for place, pads in enumerate(size.padding))
        and all(_is_pointwise(stage) for stage in dense)
        and all(stage.narrowing == Scale() for stage in chain.stages[:-1])
        and all(type(stage) is ConvolutionTask for stage in chain.stages)
        and _best_tile(chain, config, 1) is not None
    )


def _is_pointwise(task: ConvolutionTask) -> bool:
    size = task.size
    shape = size.kernel, size.stride, size.padding, size.groups
    return shape == ((1, 1), (1, 1), (0, 0, 0, 0), 1) and not task.alike


@lru_cache(maxsize=1024)
def _best_tile(chain: Chain, config: AcceleratorConfig, copies: int) -> ChainTile | None:
    plans = (ChainPlan(chain, tile, config) for tile in chain_tiles(chain, config, copies))
    best = min((plan for plan in plans if plan.fits), key=lambda plan: plan.cycles, default=None)
    return None if best is None else best.tile
