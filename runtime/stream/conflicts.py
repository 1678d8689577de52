"""Which earlier instructions of other units each instruction of a stream must wait for, from what they touch.

Units touch the same elements of a memory only where one of them writes, so any two units that meet there must
keep the stream's order.
A tensor in DRAM is read by two units without conflict, so it is taken for two elements: each reader touches
    its own, a writer both.
"""

import numpy as np
from numba import njit

from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.units import Unit
from vdla.hw.spec.vocabulary import MemoryType

UNITS = len(Unit)
PLACES = 3  # that an instruction touches, at most
DRAM = len(MemoryType)  # as a memory, behind those on chip


def tensor_read(number: int, unit: Unit) -> tuple[int, int, int]:
    """Return what a LOAD of `unit` touches of a tensor."""
    return DRAM, 2 * number + unit, 2 * number + unit + 1


def tensor_written(number: int) -> tuple[int, int, int]:
    """Return what a STORE touches of a tensor."""
    return DRAM, 2 * number, 2 * number + 2


def tensors_of(touched: np.ndarray) -> np.ndarray:
    """Return int64[n]: the tensor that each instruction touches; -1: none."""
    memory, begin, end = touched.transpose(2, 0, 1)
    return np.where((memory == DRAM) & (end > begin), begin // 2, -1).max(axis=1)


def conflicts(units: np.ndarray, touched: np.ndarray, config: AcceleratorConfig) -> np.ndarray:
    """Return int64[n, units]: of each other unit, the last instruction before that touches what this one
    does; -1: none.

    Args:
        units: uint8[n].
        touched: int64[n, touches, 3]: memory, and the interval [begin, end) of its elements; what lies beyond
            the memory is left out.
    """
    needs = np.full((len(units), UNITS), -1)
    bounds = _bounds(config, 2 * (tensors_of(touched).max() + 1))
    _fill(units, touched, bounds, np.full((UNITS, bounds.max()), -1), needs)
    return needs


def _bounds(config: AcceleratorConfig, dram_elements: int) -> np.ndarray:
    """Return int64[memories, 2]: where each memory begins and ends when all stand in one row; names of one
    memory share its place."""
    places, end = {}, 0
    for memory in (MemoryType.UOP, MemoryType.INP, MemoryType.WGT, MemoryType.ACC):
        places[memory] = end, end + config.depth(memory)
        end += config.depth(memory)
    places[MemoryType.OUT] = places[MemoryType.ACC_8BIT] = places[MemoryType.ACC]
    places[DRAM] = end, end + dram_elements
    return np.array([places[memory] for memory in range(DRAM + 1)])


@njit(cache=True, error_model="numpy")
def _fill(units, touched, bounds, last, needs):
    for number in range(len(units)):
        own = units[number]
        for memory, begin, end in touched[number]:
            first, limit = bounds[memory]
            begin, end = first + max(begin, 0), min(first + end, limit)
            for unit in range(last.shape[0]):
                if unit != own:
                    for element in range(begin, end):
                        needs[number, unit] = max(needs[number, unit], last[unit, element])
            last[own, begin:end] = number
