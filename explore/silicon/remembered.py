"""Figures that were measured on this machine: they join those of the shipped store."""

import json

from vdla.explore.silicon.hardware import generator_digest
from vdla.hw.spec.cache import digest_of
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.shelf import Shelf

_SHELF = Shelf("silicon", 16 << 20)


def remembered(config: AcceleratorConfig, family: str) -> dict[str, float]:
    """Return the figures of a design that were measured here: resources, `mhz`; those that are known."""
    kept = _SHELF.read(_key(config, family))
    found: dict[str, float] = json.loads(kept) if kept else {}
    return found


def remember(config: AcceleratorConfig, family: str, figures: dict[str, float]) -> None:
    """Keep figures of a design; of several clocks, the fastest."""
    known = remembered(config, family)
    fastest = {"mhz": max(figures["mhz"], known.get("mhz", 0.0))} if "mhz" in figures else {}
    _SHELF.write(_key(config, family), json.dumps({**known, **figures, **fastest}).encode())


def _key(config: AcceleratorConfig, family: str) -> str:
    return digest_of([generator_digest(), config.digest, family])
