"""How inner loops are compiled: every part inlined into one function that runs without Python.

Nothing in it allocates, so numba's reference counting is left out (`_nrt`): it would cost ten times what the
work does.
"""

import hashlib
from pathlib import Path

from numba import njit

import vdla.hw.spec

part = njit(forceinline=True, error_model="numpy", _nrt=False)
whole = njit(cache=True, error_model="numpy", _nrt=False)


def revision() -> int:
    """Return a digest of the sources that machine code is made of: this package's and the specification's.

    The cache of machine code on disk looks at the file of the cached function alone. It does tell functions
    apart by the variables that they enclose, though, so one that encloses this number is compiled anew
    whenever a part of it has changed.
    """
    folders = (Path(__file__).parent, Path(vdla.hw.spec.__file__).parent)
    texts = (path.read_bytes() for folder in folders for path in sorted(folder.rglob("*.py")))
    return int.from_bytes(hashlib.sha256(b"".join(texts)).digest()[:7], "little")
