"""Parameter values that cannot work together, refused in one line."""

import pytest

from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.consistency import BUFFERS, check_consistency
from vdla.hw.spec.errors import ConfigError
from vdla.hw.spec.presets import DEFAULT
from vdla.hw.spec.vocabulary import NEEDED, Extension, MemoryType


@pytest.mark.parametrize("extension", NEEDED)
def test_an_extension_that_works_on_anothers_results_needs_it(extension):
    with pytest.raises(ConfigError) as caught:
        AcceleratorConfig(extensions=(extension,))
    assert str(caught.value) == (
        f"extensions holds {extension} without {NEEDED[extension]}, on whose results it works; "
        f"add {NEEDED[extension]} or leave {extension} out"
    )
    needed = [extension]
    while needed[-1] in NEEDED:
        needed.append(NEEDED[needed[-1]])
    check_consistency(AcceleratorConfig(extensions=tuple(needed)))


def test_the_size_of_a_memory_matters_only_where_it_is():
    large = {"batch": 64, "block_out": 256, "acc_buffer_bytes": 1 << 20, "wgt_buffer_bytes": 1 << 20}
    check_consistency(AcceleratorConfig(**large))
    with pytest.raises(ConfigError) as caught:
        AcceleratorConfig(
            **large, res_buffer_bytes=8192, extensions=(Extension.REQUANTISE, Extension.RESIDUAL)
        )
    assert str(caught.value) == (
        "res_buffer_bytes = 8192 holds fewer than 2 elements of 16384 bytes; it must be at least 32768"
    )


def test_every_scratchpad_has_a_parameter_for_its_size():
    assert BUFFERS[MemoryType.RES] == "res_buffer_bytes"
    assert all(hasattr(DEFAULT, name) for name in BUFFERS.values())


LEAST = {"block_in": 8, "block_out": 4}  # elements of 8, 32 and 16 bytes, and of 4 for residuals


@pytest.mark.parametrize(
    ("name", "element"), [("inp_buffer_bytes", 8), ("wgt_buffer_bytes", 32), ("acc_buffer_bytes", 16)]
)
def test_a_scratchpad_holds_two_elements_to_two_to_the_21(name, element):
    for count in (2, 1 << 21):
        AcceleratorConfig(**LEAST, **{name: count * element})
    for count in (1, 1 << 22):
        with pytest.raises(ConfigError, match=rf"^{name} = {count * element} holds "):
            AcceleratorConfig(**LEAST, **{name: count * element})


@pytest.mark.parametrize(
    ("bus_bits", "least", "most"), [(64, 32, 2048), (128, 32, 4096), (256, 32, 4096), (512, 64, 4096)]
)
def test_a_burst_is_a_beat_to_256_and_crosses_no_page(bus_bits, least, most):
    for size in (least, most):
        AcceleratorConfig(bus_bits=bus_bits, burst_bytes=size)
    for size in (least // 2, 2 * most):
        with pytest.raises(ConfigError, match=rf"^burst_bytes = {size} is outside "):
            AcceleratorConfig(bus_bits=bus_bits, burst_bytes=size)


def test_axi_addresses_have_32_to_64_bits():
    for width in (0, 32, 64):
        AcceleratorConfig(axi_address_bits=width)
    for width in (-1, 1, 31, 65):
        with pytest.raises(ConfigError, match=rf"^axi_address_bits = {width} is outside "):
            AcceleratorConfig(axi_address_bits=width)
