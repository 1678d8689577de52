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
        f"extensions holds {extension} without requantise, on whose results it works; "
        f"add requantise or leave {extension} out"
    )
    check_consistency(AcceleratorConfig(extensions=(extension, NEEDED[extension])))


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
