"""Arrays from other libraries: whatever speaks DLPack or NumPy's array interface, without a copy where it
stands in the CPU's memory.

Source: the Python array API standard, `__dlpack__` and `__dlpack_device__`; the device types are as in
`dlpack.h`.
"""

from typing import Any

import numpy as np

DEVICES = {
    1: "the CPU",
    2: "CUDA",
    3: "CUDA's part of the CPU's memory",
    4: "OpenCL",
    7: "Vulkan",
    8: "Metal",
    9: "VPI",
    10: "ROCm",
    11: "ROCm's part of the CPU's memory",
    13: "CUDA's managed memory",
    14: "oneAPI",
    15: "WebGPU",
    16: "Hexagon",
    17: "MAIA",
}
READABLE = (1, 3, 11, 13)  # device types whose memory the CPU reads
CUDA_ALONE = "__cuda_array_interface__"
MOVE = "arrays are read from the memory of the CPU; copy it there first"


def array_of(values: object) -> np.ndarray:
    """Return the elements of an array of any library, or of nested sequences of numbers.

    An array that speaks DLPack (`__dlpack__`), or else `__array_interface__` or `__array__`, is not copied
    where NumPy can express its layout; it may be read-only then.

    Raises:
        ValueError: it stands in the memory of another device, or is no array that NumPy takes. The message
            goes on after the array's name: "is ...".
    """
    if isinstance(values, np.ndarray):
        return values
    if hasattr(values, "__dlpack__") and hasattr(values, "__dlpack_device__"):
        return _from_dlpack(values)
    if hasattr(values, CUDA_ALONE):
        raise ValueError(f"is in the memory of CUDA; {MOVE}")
    try:
        return np.asarray(values)
    except Exception as error:  # whatever another library's __array__ raises
        raise ValueError(f"is not an array of numbers: {_reason(error)}") from error


def _from_dlpack(values: Any) -> np.ndarray:
    try:
        kind, number = map(int, values.__dlpack_device__())
        array = np.from_dlpack(values) if kind in READABLE else None
    except Exception as error:  # whatever another library's __dlpack__ raises
        raise ValueError(f"cannot be read by DLPack: {_reason(error)}") from error
    if array is None:
        raise ValueError(f"is on device {number} of {DEVICES.get(kind, f'DLPack type {kind}')}; {MOVE}")
    return array


def _reason(error: Exception) -> str:
    """Return what an error says, on one line."""
    return " ".join(str(error).split()) or type(error).__name__


def free(array: np.ndarray) -> np.ndarray:
    """Return an array that other libraries may take over by DLPack and write to: itself, or a copy if it is
    read-only."""
    return array if array.flags.writeable else array.copy()
