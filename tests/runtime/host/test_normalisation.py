"""Local response normalisation, against the formula channel by channel."""

import numpy as np
import pytest

from vdla.runtime.host.evaluate import evaluate


@pytest.mark.parametrize("channels", [1, 3, 8])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 20])
def test_sums_reach_half_a_size_to_both_sides_and_no_further_than_the_channels(channels, size):
    x = np.random.default_rng(0).normal(size=(2, channels, 3, 4)).astype(np.float32)
    (y,) = evaluate("LRN", [x], {"alpha": 0.5, "beta": 0.75, "bias": 2.0, "size": size})
    for c in range(channels):
        near = np.square(x[:, max(c - (size - 1) // 2, 0) : c + size // 2 + 1]).sum(axis=1)
        np.testing.assert_allclose(y[:, c], x[:, c] / (2 + 0.5 / size * near) ** 0.75, rtol=1e-6)


def test_a_size_beyond_all_channels_takes_no_longer():
    x = np.ones((1, 2, 1, 1), np.float32)
    (y,) = evaluate("LRN", [x], {"alpha": 0.0, "beta": 1.0, "bias": 2.0, "size": 1 << 62})
    assert y.reshape(-1).tolist() == [0.5, 0.5]
