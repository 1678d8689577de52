"""The preset configurations."""

from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import ConfigError
from vdla.hw.spec.vocabulary import Extension

KIB = 1 << 10

DEFAULT = AcceleratorConfig(name="default", extensions=tuple(Extension))
VTA = DEFAULT.with_changes(name="vta", extensions=())
PAPER = DEFAULT.with_changes(name="paper", wgt_buffer_bytes=32 * KIB)
SMALL = DEFAULT.with_changes(
    name="small",
    block_in=8,
    block_out=8,
    uop_buffer_bytes=8 * KIB,
    inp_buffer_bytes=16 * KIB,
    wgt_buffer_bytes=32 * KIB,
    acc_buffer_bytes=32 * KIB,
    load_queue_depth=32,
    compute_queue_depth=32,
    store_queue_depth=32,
)
TINY = DEFAULT.with_changes(
    name="tiny",
    block_in=4,
    block_out=4,
    uop_buffer_bytes=2 * KIB,
    inp_buffer_bytes=4 * KIB,
    wgt_buffer_bytes=4 * KIB,
    acc_buffer_bytes=8 * KIB,
    load_queue_depth=16,
    compute_queue_depth=16,
    store_queue_depth=16,
)

PRESETS = {config.name: config for config in (DEFAULT, VTA, PAPER, SMALL, TINY)}


def preset(name: str) -> AcceleratorConfig:
    """Return the preset called `name`.

    Raises:
        ConfigError: there is none of that name.
    """
    if name not in PRESETS:
        raise ConfigError(f"no preset is called {name!r}; there are {', '.join(PRESETS)}")
    return PRESETS[name]
