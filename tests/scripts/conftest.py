"""Scripts as modules."""

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture(scope="module")
def script() -> Iterator[Callable[[str], ModuleType]]:
    """Return a function that imports a script by its name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPTS)
        yield importlib.import_module


@pytest.fixture(scope="module")
def on_one_thread() -> Iterator[None]:
    """Keep the numbers of threads: benchmarks set them in libraries that are imported already."""
    with pytest.MonkeyPatch.context() as patch:
        for library in ("OMP", "OPENBLAS", "MKL"):
            patch.setenv(f"{library}_NUM_THREADS", "1")
        yield
