"""Arrays of other libraries: nothing is copied where it need not be, and other devices are refused."""

import re

import numpy as np
import pytest

from vdla.runtime.exchange import array_of, free

NUMBERS = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
CPU, CUDA, UNKNOWN = 1, 2, 99
HEADER = """
kDLCPU = 1 kDLCUDA = 2 kDLCUDAHost = 3 kDLOpenCL = 4 kDLVulkan = 7 kDLMetal = 8 kDLVPI = 9 kDLROCM = 10
kDLROCMHost = 11 kDLCUDAManaged = 13 kDLOneAPI = 14 kDLWebGPU = 15 kDLHexagon = 16 kDLMAIA = 17
"""
"""The device types of `dlpack.h`."""
KINDS = {name: int(kind) for name, kind in re.findall(r"kDL(\w+) = (\d+)", HEADER)}
READ = ("CPU", "CUDAHost", "ROCMHost", "CUDAManaged")  # whose memory the CPU reads


class Dlpack:
    """An array that speaks DLPack and nothing else."""

    def __init__(self, array: np.ndarray, kind: int = CPU, number: int = 0) -> None:
        self._array, self._device = array, (kind, number)

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._device


class OldDlpack(Dlpack):
    """One of DLPack's first version, which has no options."""

    def __dlpack__(self):
        return self._array.__dlpack__()


class Refusing(Dlpack):
    """One that a library does not export."""

    def __dlpack__(self, **options):
        raise BufferError("tensors that require\ngradient are not exported")


class Array:
    """An array that has `__array__` and nothing else."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __array__(self, dtype=None, copy=None):
        return np.array(self._array, dtype=dtype, copy=copy)


class Interface:
    """An array that has `__array_interface__` and nothing else."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array
        self.__array_interface__ = array.__array_interface__


class Exporting(Array):
    """An array that does not say on which device it is."""

    def __dlpack__(self, **options):
        raise AssertionError("its device was not asked for")


class Placed(Array):
    """An array that says on which device it is, and does not speak DLPack."""

    def __dlpack_device__(self):
        return CPU, 0


class OnCuda:
    """An array of a GPU that copies itself to the CPU where it is asked for."""

    __cuda_array_interface__ = ("shape", (2,))

    def __array__(self, dtype=None, copy=None):
        raise AssertionError("it was copied from the GPU")


class Broken:
    """An array that cannot be had."""

    def __array__(self, dtype=None, copy=None):
        raise TypeError("no conversion")


class Silent:
    """An array that cannot be had, and does not say why."""

    def __array__(self, dtype=None, copy=None):
        raise KeyError


SPEAKERS = [lambda array: array, Dlpack, OldDlpack, Array, Exporting, Placed, Interface]
NAMES = ["numpy", "dlpack", "old dlpack", "__array__", "exporting", "placed", "__array_interface__"]
LAYOUTS = [NUMBERS, NUMBERS.T, NUMBERS[:, ::2], NUMBERS[:, ::-1], NUMBERS[:1, 0, 0], np.int8([[1, 0]]) == 1]


@pytest.mark.parametrize("array", LAYOUTS, ids=["rows", "turned", "steps", "backwards", "one", "bool"])
@pytest.mark.parametrize("speaker", SPEAKERS, ids=NAMES)
def test_arrays_are_taken_without_a_copy(speaker, array):
    exchanged = array_of(speaker(array))
    assert type(exchanged) is np.ndarray
    assert (exchanged.dtype, exchanged.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(exchanged, array)
    assert np.shares_memory(exchanged, array)


@pytest.mark.parametrize("name", READ)
def test_memory_of_the_cpu_is_read_whoever_owns_it(name):
    assert np.shares_memory(array_of(Dlpack(NUMBERS, KINDS[name])), NUMBERS)


@pytest.mark.parametrize("name", sorted(KINDS.keys() - READ))
def test_a_device_is_told_by_the_name_that_dlpack_gives_it(name):
    with pytest.raises(ValueError, match=rf"(?i)^is on device 5 of {name}; "):
        array_of(Dlpack(NUMBERS, KINDS[name], 5))


def test_no_other_device_of_dlpack_has_a_name():
    for kind in {*range(-1, 40)} - {*KINDS.values()}:
        with pytest.raises(ValueError, match=rf"^is on device 0 of DLPack type {kind}; "):
            array_of(Dlpack(NUMBERS, kind))


@pytest.mark.parametrize("values", [[[1, 2]], 3.5, range(4)], ids=str)
def test_numbers_in_sequences_are_taken(values):
    np.testing.assert_array_equal(array_of(values), np.asarray(values))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            Dlpack(NUMBERS, CUDA, 1),
            "is on device 1 of CUDA; arrays are read from the memory of the CPU; copy it",
        ),
        (Dlpack(NUMBERS, UNKNOWN), "is on device 0 of DLPack type 99; arrays are read from"),
        (
            OnCuda(),
            "is in the memory of CUDA; arrays are read from the memory of the CPU; copy it there first",
        ),
        (
            Refusing(NUMBERS),
            "cannot be read by DLPack: tensors that require gradient are not exported",
        ),
        (Broken(), "is not an array of numbers: no conversion"),
        (Silent(), "is not an array of numbers: KeyError"),
        ([[1, 2], [3]], "is not an array of numbers: setting an array element with a sequence"),
    ],
    ids=["GPU", "device without a name", "CUDA alone", "refused", "broken", "silent", "uneven"],
)
def test_what_cannot_be_read_is_refused_on_one_line(values, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}") as caught:
        array_of(values)
    assert "\n" not in str(caught.value)


def test_results_that_may_be_written_to_are_not_copied():
    array = NUMBERS.copy()
    assert free(array) is array
    assert np.shares_memory(np.from_dlpack(free(array[:, ::2])), array)


def test_results_that_may_not_be_written_to_are_copied():
    array = NUMBERS.copy()
    array.flags.writeable = False
    assert free(array).flags.writeable
    np.testing.assert_array_equal(free(array), array)
