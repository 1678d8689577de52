"""``vdla timing``."""

import json
from dataclasses import asdict

import click

from vdla.cli._options import reports_errors, takes_target_alone
from vdla.hw.spec.target import Target


@click.command()
@click.option(
    "--target",
    "family",
    type=click.Choice(["ecp5"]),
    default="ecp5",
    show_default=True,
    help="FPGA family; the device is an LFE5U-85F of speed grade 6.",
)
@click.option(
    "--seeds",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Placements to try; the fastest is shown.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@reports_errors
@takes_target_alone
def command(target: Target, family: str, seeds: int, as_json: bool) -> None:
    """Place and route the core; print its clock and its slowest paths.

    Shift registers around the core keep its wide ports off the pins. Slack is against the clock of the
    target (--set clock_mhz=...). Results are kept: the second call with equal hardware routes nothing.
    """
    from vdla.explore.silicon.routing import Clock, best_clock

    config = target.config
    clocks = best_clock(config, seeds, lambda line: click.echo(line, err=True))
    best: Clock = clocks[0]
    period = 1000 / target.clock_mhz
    paths = [{**asdict(path), "slack_ns": round(period - path.ns, 3)} for path in best.paths]
    if as_json:
        head = {"config": config.name, "digest": config.digest, "target": family, "mhz": best.mhz}
        seeds_mhz = {clock.seed: clock.mhz for clock in clocks}
        asked = {"asked_mhz": target.clock_mhz, "slack_ns": round(period - 1000 / best.mhz, 3)}
        click.echo(
            json.dumps({**head, **asked, "seed": best.seed, "seeds": seeds_mhz, "paths": paths}, indent=1)
        )
        return
    spread = f" (seed {best.seed}; {clocks[-1].mhz:.1f} to {best.mhz:.1f} MHz over {seeds} seeds)" * (
        seeds > 1
    )
    click.echo(
        f"{config.name} on {family}: {best.mhz:.1f} MHz{spread}, slack {period - 1000 / best.mhz:.2f} ns at "
        f"{target.clock_mhz:g} MHz"
    )
    for path in paths:
        click.echo(f"{path['ns']:7.2f} ns, slack {path['slack_ns']:7.2f}: {path['start']} to {path['end']}")
        click.echo(f"{'':12}through {', '.join(path['units'])}")
