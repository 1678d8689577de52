"""Figures that were measured on this machine: they join the figures of the shipped store."""

import json
from collections.abc import Mapping
from typing import Any

from vdla.explore.silicon.hardware import generator_digest
from vdla.hw.spec.cache import digest_of
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.shelf import Shelf

_SHELF = Shelf("silicon", 16 << 20)


def remembered(config: AcceleratorConfig, family: str) -> dict[str, Any]:
    """Return the figures of a design that were measured here, as far as they are known: resources, `mhz`,
    and `path` as in the store."""
    kept = _SHELF.read(_key(config, family))
    figures: dict[str, Any] = json.loads(kept) if kept else {}
    return figures


def remember(config: AcceleratorConfig, family: str, figures: Mapping[str, Any]) -> None:
    """Keep figures of a design; of several clocks, the fastest and its path."""
    known = remembered(config, family)
    if figures.get("mhz", 0.0) >= known.get("mhz", 0.0) or "mhz" not in figures:
        known |= figures
    _SHELF.write(_key(config, family), json.dumps(known).encode())


def _key(config: AcceleratorConfig, family: str) -> str:
    return digest_of(["with path", generator_digest(), config.digest, family])
