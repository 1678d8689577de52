"""Records of runs: what `vdla run --json` prints of a network, damaged."""

import json
from collections.abc import Iterator
from functools import cache
from random import Random

from fuzzing.networks import images
from fuzzing.steps import Step
from fuzzing.values import changed_bytes, changed_tree, text_of
from vdla.api import Module
from vdla.cli._records import run_values
from vdla.compiler.network.compile import compile_network
from vdla.hw.spec.presets import SMALL, TINY
from vdla.hw.spec.target import Target
from vdla.runtime.session.summary import summary_of

BYTES_SHARE, LAYER_SHARE, PAGE_SHARE = 0.2, 0.5, 0.1


@cache
def records() -> tuple[str, ...]:
    """Return records of a network's runs on two targets."""
    plans = (compile_network(images().SerializeToString(), Target(config)).plan for config in (TINY, SMALL))
    return tuple(json.dumps(_values(Module(plan))) for plan in plans)


def _values(module: Module) -> dict[str, object]:
    forecast = module.forecast()
    return run_values(module.plan, forecast, summary_of(module.plan, forecast), module.plan.target.memory)


def record(rng: Random) -> tuple[bytes, str]:
    """Return a record: a tree with other values, in its layers most often, or with other bytes."""
    text = rng.choice(records())
    if rng.random() < BYTES_SHARE:
        return changed_bytes(text.encode(), rng), "json"
    tree = json.loads(text)
    part = rng.choice(("layers", "target", "summary")) if rng.random() < LAYER_SHARE else None
    if part is None:
        return text_of(changed_tree(tree, rng)), "json"
    return text_of({**tree, part: changed_tree(tree[part], rng)}), "json"


def steps(rng: Random) -> Iterator[Step]:
    """Yield the commands that meet a record."""
    yield Step(("diff", "FILE", "NET.vdla", *rng.choice(((), ("--top", "2"), ("--sort", "order")))))
    yield Step(("diff", "NET.vdla", "FILE", "--json"))
    if rng.random() < PAGE_SHARE:
        yield Step(("diff", "FILE", "FILE", "-o", "OUT"))
