"""Files of arrays that a user gives are told from others."""

import numpy as np
import pytest

from vdla.runtime.samples import InputError, read_arrays


def test_arrays_come_by_name(tmp_path):
    np.savez(tmp_path / "in.npz", image=np.arange(3))
    assert {name: array.tolist() for name, array in read_arrays(tmp_path / "in.npz").items()} == {
        "image": [0, 1, 2]
    }


@pytest.mark.parametrize("contents", [b"", b"words", b"PK\x03\x04 and no more"])
def test_another_file_is_told_from_one_of_arrays(tmp_path, contents):
    path = tmp_path / "in.npz"
    path.write_bytes(contents)
    with pytest.raises(InputError) as caught:
        read_arrays(path)
    assert str(caught.value) == f"{path} is not an .npz file of arrays; numpy.savez writes one"
