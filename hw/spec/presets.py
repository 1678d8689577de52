"""The preset configurations."""

from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import ConfigError
from vdla.hw.spec.vocabulary import Extension

KIB = 1 << 10

LEAN = (Extension.PAD_MINIMUM, Extension.OVERWRITE, Extension.REQUANTISE)
"""The extensions of presets whose device has no room for more, or whose clock more would lower."""

FULL = tuple(
    extension for extension in Extension if extension not in (Extension.NARROW_WEIGHTS, Extension.NORMALISE)
)
"""The extensions of presets that have room for all that make convolutional networks faster. No preset has
narrow weights, which need weights that are quantised for them, nor NORMALISE, which only transformers use."""

FITTED = tuple(extension for extension in FULL if extension is not Extension.ACC_HALVES)
"""The extensions of a preset that fills its device's multipliers. A second port of ACC would take a tenth of
its LUTs and save 2 % of MobileNetV2's cycles."""

DEFAULT = AcceleratorConfig(name="default", extensions=FULL)
VTA = DEFAULT.with_changes(name="vta", extensions=())
PAPER = DEFAULT.with_changes(
    name="paper",
    extensions=tuple(
        extension
        for extension in DEFAULT.extensions
        if extension not in (Extension.FEEDBACK, Extension.DEPTHWISE_ROWS)
    ),
    wgt_buffer_bytes=32 * KIB,
)
SMALL = DEFAULT.with_changes(
    name="small",
    extensions=LEAN,
    block_in=8,
    block_out=8,
    uop_buffer_bytes=8 * KIB,
    inp_buffer_bytes=16 * KIB,
    wgt_buffer_bytes=32 * KIB,
    acc_buffer_bytes=32 * KIB,
    load_queue_depth=32,
    compute_queue_depth=32,
    store_queue_depth=32,
    alu_lanes=1,
    alu_stages=2,
    acc_ports=1,
    requantise_lanes=2,
)
TINY = DEFAULT.with_changes(
    name="tiny",
    extensions=LEAN,
    block_in=4,
    block_out=4,
    uop_buffer_bytes=2 * KIB,
    inp_buffer_bytes=4 * KIB,
    wgt_buffer_bytes=4 * KIB,
    acc_buffer_bytes=8 * KIB,
    load_queue_depth=16,
    compute_queue_depth=16,
    store_queue_depth=16,
    alu_lanes=1,
    alu_stages=2,
    acc_ports=1,
    requantise_lanes=1,
)

ECP5_25F = DEFAULT.with_changes(
    name="ecp5-25f",
    extensions=LEAN,
    block_in=8,
    block_out=4,
    uop_buffer_bytes=8 * KIB,
    inp_buffer_bytes=16 * KIB,
    wgt_buffer_bytes=32 * KIB,
    acc_buffer_bytes=16 * KIB,
    load_queue_depth=32,
    compute_queue_depth=32,
    store_queue_depth=32,
    packed=18,
    alu_lanes=1,
    alu_stages=2,
    requantise_lanes=4,
)
"""Fits an LFE5U-25F: 24,288 LUTs, 28 multipliers and 56 block RAMs of 18 Kbit."""

ECP5_85F = DEFAULT.with_changes(
    name="ecp5-85f",
    extensions=FITTED,
    uop_buffer_bytes=16 * KIB,
    wgt_buffer_bytes=128 * KIB,
    acc_buffer_bytes=64 * KIB,
    load_queue_depth=32,
    compute_queue_depth=32,
    store_queue_depth=32,
    packed=18,
    alu_lanes=2,
    alu_stages=2,
    requantise_lanes=4,
)
"""Fits an LFE5U-85F: 83,640 LUTs, 156 multipliers and 208 block RAMs of 18 Kbit."""

ZYNQ_7020 = DEFAULT.with_changes(
    name="zynq-7020",
    uop_buffer_bytes=16 * KIB,
    acc_buffer_bytes=64 * KIB,
    load_queue_depth=32,
    compute_queue_depth=32,
    store_queue_depth=32,
    packed=25,
    alu_lanes=8,
    alu_stages=2,
    requantise_lanes=8,
    axi_address_bits=32,
)
"""Fits a Zynq-7020: 53,200 LUTs, 220 multipliers and 140 block RAMs of 36 Kbit; its ports to memory have 32
address bits."""

PRESETS = {
    config.name: config for config in (DEFAULT, VTA, PAPER, SMALL, TINY, ECP5_25F, ECP5_85F, ZYNQ_7020)
}


def preset(name: str) -> AcceleratorConfig:
    """Return the preset called `name`.

    Raises:
        ConfigError: there is none of that name.
    """
    if name not in PRESETS:
        raise ConfigError(f"no preset is called {name!r}; there are {', '.join(PRESETS)}")
    return PRESETS[name]
