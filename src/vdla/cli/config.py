"""``vdla config``."""

import json
from functools import wraps
from pathlib import Path
from typing import Any

import click

from vdla.cli._options import OUTPUT_FILE, Command, reports_errors, with_settings
from vdla.hw.spec.config import parameters
from vdla.hw.spec.errors import ConfigError
from vdla.hw.spec.files import read_text
from vdla.hw.spec.memories import memories_of
from vdla.hw.spec.presets import VTA
from vdla.hw.spec.target import Target, surroundings
from vdla.hw.spec.target_files import to_toml
from vdla.hw.spec.vocabulary import MemoryType
from vdla.hw.spec.vta_json import read_vta
from vdla.hw.spec.writing import write_text


def _imports_vta(function: Command) -> Command:
    """Add --from-vta and what `with_settings` adds; the command gets the resulting `target`."""
    inner = with_settings(function)

    @click.option(
        "--from-vta",
        "vta",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Import a vta_config.json of VTA instead of NAME or FILE.",
    )
    @reports_errors
    @wraps(inner)
    def wrapped(target: str | None, vta: Path | None, settings: tuple[str, ...], **kwargs: Any) -> None:
        if vta is None:
            inner(target=target or "default", settings=settings, **kwargs)
            return
        if target is not None:
            raise click.UsageError(f"{target} and --from-vta {vta} both name a configuration; give one")
        imported = read_vta(read_text(vta), str(vta))
        for sentence in imported.ignored:
            click.echo(sentence, err=True)
        inner(target=VTA.name, settings=(*imported.settings, *settings), **kwargs)

    return wrapped


@click.command()
@click.argument("target", required=False, metavar="[NAME|FILE]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "-o",
    "--output",
    type=OUTPUT_FILE,
    metavar="FILE.toml",
    help="Also write it as a file that --config takes.",
)
@_imports_vta
def command(target: Target, as_json: bool, output: Path | None) -> None:
    """Show a target: its configuration and derived figures, its memory, clock and energy table."""
    if output is not None:
        if output.suffix != ".toml":
            raise ConfigError(f"--output {output} has another suffix than .toml; --config takes .toml files")
        write_text(output, to_toml(target))
    values = describe(target)
    click.echo(json.dumps(values, indent=2) if as_json else _text(values))


def describe(target: Target) -> dict[str, Any]:
    """Return parameters, memories and derived figures of `target` as JSON values."""
    config = target.config
    memories = {
        memory.name.lower(): {
            "element_bytes": config.element_bytes(memory),
            "depth": config.depth(memory),
            "index_bits": config.index_bits(memory),
            "kib": config.depth(memory) * config.element_bytes(memory) / 1024,
        }
        for memory in memories_of(config)
        if memory is not MemoryType.ACC_8BIT
    }
    return {
        "name": config.name,
        "parameters": parameters(config),
        "memories": memories,
        "macs_per_cycle": config.macs_per_cycle,
        "bus_bytes_per_cycle": config.bus_bytes,
        "address_bits": config.address_bits,
        "instruction_bits": config.instruction_bits,
        "uop_bits": config.uop_bits,
        "memory_kib": sum(memory["kib"] for memory in memories.values()),
        "digest": config.digest,
        **surroundings(target),
        "clock_source": target.clock_source,
        "target_digest": target.digest,
    }


def _text(values: dict[str, Any]) -> str:
    lines = [f"configuration {values['name']}", ""]
    lines += [
        f"  {key:20} {', '.join(value) or 'none' if isinstance(value, list) else value}"
        for key, value in values["parameters"].items()
    ]
    lines += ["", "  memory    element bytes    depth  index bits       KiB"]
    lines += [
        f"  {name:8} {memory['element_bytes']:14} {memory['depth']:8} {memory['index_bits']:11} "
        f"{memory['kib']:9g}"
        for name, memory in values["memories"].items()
    ]
    lines += [
        "",
        f"  peak              {values['macs_per_cycle']} MACs per cycle",
        f"  DRAM              {values['bus_bytes_per_cycle']} bytes per cycle",
        f"  encoding          instructions of {values['instruction_bits']} bits, micro-ops of "
        f"{values['uop_bits']}",
        f"  on-chip memory    {values['memory_kib']:g} KiB",
        f"  digest            {values['digest']}",
        "",
        f"  memory            {_memory_text(values['memory'])}",
        f"  clock             {values['clock_mhz']:g} MHz, {values['clock_source'].text}",
        "  energy            "
        f"{', '.join(f'{event} {value:g} pJ' for event, value in values['energy'].items())}",
        f"  target digest     {values['target_digest']}",
    ]
    return "\n".join(lines)


def _memory_text(memory: dict[str, int]) -> str:
    """Return the parameters of either kind of memory in a line."""
    if "latency" not in memory:
        return "SDRAM: " + ", ".join(f"{name} {value}" for name, value in memory.items())
    return (
        f"{memory['latency']} cycles of latency, {memory['depth']} requests in flight, "
        f"{memory['cycles_per_beat']} cycles per beat"
    )
