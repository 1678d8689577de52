"""``vdla inspect``."""

import json
from pathlib import Path
from typing import Any

import click

from vdla.cli._options import reports_errors
from vdla.hw.spec.target import surroundings
from vdla.runtime.module.file import load
from vdla.runtime.module.plan import LaunchStep, Plan


@click.command()
@click.argument("module", metavar="MODULE.vdla", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@reports_errors
def command(module: Path, as_json: bool) -> None:
    """Show what a module holds: inputs and outputs, steps, streams and memory."""
    plan = load(module)
    click.echo(json.dumps(_facts(plan), indent=1) if as_json else _text(plan))


def _facts(plan: Plan) -> dict[str, Any]:
    return {
        "name": plan.name,
        "config": plan.config.name,
        "config_digest": plan.config.digest,
        "target": {**surroundings(plan.target), "clock_source": plan.target.clock_source},
        "target_digest": plan.target.digest,
        "inputs": {name: str(value) for name, value in plan.given.items()},
        "outputs": {name: str(value) for name, value in plan.results.items()},
        "states": {name: _state(plan, name) for name in plan.states},
        "streams": {
            name: {"instructions": stream.count, "micro_ops": len(stream.uops)}
            for name, stream in plan.streams.items()
        },
        "host_operators": [f"{step.op} {step.name}" for step in plan.host_steps],
        "weight_bytes": sum(values.nbytes for values in plan.weights.values()),
        "activation_bytes": sum(plan.tensors.values()),
        "dram_bytes": plan.dram_bytes,
    }


def _state(plan: Plan, name: str) -> str:
    """Return the type of a state, the output that it takes, and the numbers that it stands for."""
    value, state = plan.inputs[name], plan.states[name]
    meaning = f", (value - {state.zero}) * {state.scale:.6g}" if value.dtype == "int8" else ""
    return f"{value}, takes {state.output}{meaning}"


def _text(plan: Plan) -> str:
    facts = _facts(plan)
    lines = [f"{plan.name}, compiled for {plan.config.name} ({plan.config.digest[:12]})"]
    lines += [
        f"{kind[:-1]:8}{name}: {value}"
        for kind in ("inputs", "outputs", "states")
        for name, value in facts[kind].items()
    ]
    lines += [
        f"stream  {name}: {about['instructions']:,} instructions, {about['micro_ops']:,} micro-ops"
        for name, about in facts["streams"].items()
    ]
    memory = plan.target.estimated_memory
    lines.append(
        f"target  {plan.target.clock_mhz:g} MHz, memory of {memory.latency} cycles' latency "
        f"and {memory.depth} requests in flight, {plan.target.bytes_per_cycle:g} bytes per cycle "
        f"({plan.target.digest[:12]})"
    )
    lines.append(
        f"memory  {facts['weight_bytes']:,} bytes of weights, {facts['activation_bytes']:,} of activations"
    )
    return "\n".join([*lines, described(plan)])


def described(plan: Plan) -> str:
    """Return the layers of a module, and the operators on the host with their reasons."""
    layers = [layer for step in plan.steps if isinstance(step, LaunchStep) for layer in step.layers]
    width = max((len(layer.name) for layer in layers), default=5)
    lines = [f"{'layer':{width}}  {'operator':16} {'MMAC':>9} {'KiB in':>8} {'KiB out':>8}"]
    lines += [
        f"{layer.name:{width}}  {layer.op:16} {layer.macs / 1e6:9.2f} {layer.bytes_read / 1024:8.1f} "
        f"{layer.bytes_written / 1024:8.1f}"
        for layer in layers
    ]
    lines += [f"on the host: {step.op} {step.name}: {step.reason}" for step in plan.host_steps]
    return "\n".join(lines)
