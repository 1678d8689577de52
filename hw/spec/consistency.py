"""Parameter values that are each in range but cannot work together."""

from typing import Protocol

from vdla.hw.spec.errors import ConfigError
from vdla.hw.spec.memories import SCRATCHPADS, HasExtensions, memories_of, scratchpads_of
from vdla.hw.spec.vocabulary import NEEDED, MemoryType

LEAST_AXI_ADDRESS_BITS = 32
LEAST_BURST_BYTES, MOST_BURST_BYTES = 32, 4096
MOST_BURST_BEATS = 256  # of AXI
BUFFERS = {memory: f"{memory.name.lower()}_buffer_bytes" for memory in SCRATCHPADS}
"""The parameter that gives the size of each scratchpad."""
MOST_ELEMENTS = 1 << 21
"""Elements of the deepest scratchpad. The three indices of a micro-op then fit 64 bits."""


class Parameters(HasExtensions, Protocol):
    """What is checked. `AcceleratorConfig` implements it."""

    @property
    def batch(self) -> int:
        """The parameter."""

    @property
    def block_in(self) -> int:
        """The parameter."""

    @property
    def block_out(self) -> int:
        """The parameter."""

    @property
    def inp_bits(self) -> int:
        """The parameter."""

    @property
    def wgt_bits(self) -> int:
        """The parameter."""

    @property
    def bus_bits(self) -> int:
        """The parameter."""

    @property
    def burst_bytes(self) -> int:
        """The parameter."""

    @property
    def axi_address_bits(self) -> int:
        """The parameter."""

    @property
    def bus_bytes(self) -> int:
        """Bytes of a beat."""

    def element_bits(self, memory: MemoryType) -> int:
        """Bits of one element."""

    def element_bytes(self, memory: MemoryType) -> int:
        """Bytes of one element."""


def check_consistency(config: Parameters) -> None:
    """Refuse parameter values that are each in range but cannot work together.

    Raises:
        ConfigError: naming the parameter, its value and the limit.
    """
    _check_extensions(config)
    for memory in memories_of(config):
        if memory is not MemoryType.UOP:
            _check_element(config, memory)
    for memory in scratchpads_of(config):
        if memory is not MemoryType.UOP:
            _check_depth(config, memory, BUFFERS[memory])
    _check_burst(config)
    _check_axi_address(config)


def _check_extensions(config: Parameters) -> None:
    for extension, needed in NEEDED.items():
        if config.has(extension) and not config.has(needed):
            raise ConfigError(
                f"extensions holds {extension} without {needed}, on whose results it works; "
                f"add {needed} or leave {extension} out"
            )


def _check_element(config: Parameters, memory: MemoryType) -> None:
    bits = config.element_bits(memory)
    if bits % 8:
        sizes = f"batch = {config.batch}, block_in = {config.block_in}, block_out = {config.block_out}"
        raise ConfigError(
            f"one {memory.name} element is {bits} bits, not whole bytes ({sizes}, inp_bits = "
            f"{config.inp_bits}, "
            f"wgt_bits = {config.wgt_bits}): widen the block or the values"
        )


def _check_depth(config: Parameters, memory: MemoryType, parameter: str) -> None:
    size, element = getattr(config, parameter), config.element_bytes(memory)
    if size < 2 * element:
        raise ConfigError(
            f"{parameter} = {size} holds fewer than 2 elements of {element} bytes; it must be at least "
            f"{2 * element}"
        )
    if size > MOST_ELEMENTS * element:
        raise ConfigError(
            f"{parameter} = {size} holds {size // element} elements of {element} bytes, and a scratchpad "
            f"has at most {MOST_ELEMENTS}; it must be at most {MOST_ELEMENTS * element}"
        )


def _check_burst(config: Parameters) -> None:
    low = max(LEAST_BURST_BYTES, config.bus_bytes)
    high = min(MOST_BURST_BYTES, MOST_BURST_BEATS * config.bus_bytes)
    if not low <= config.burst_bytes <= high:
        raise ConfigError(
            f"burst_bytes = {config.burst_bytes} is outside {low}..{high} for bus_bits = {config.bus_bits}"
        )


def _check_axi_address(config: Parameters) -> None:
    if 0 < config.axi_address_bits < LEAST_AXI_ADDRESS_BITS:
        raise ConfigError(
            f"axi_address_bits = {config.axi_address_bits} is outside {LEAST_AXI_ADDRESS_BITS}..64; "
            "0 means as many bits as DRAM addresses need"
        )
