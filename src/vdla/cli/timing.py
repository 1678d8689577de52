"""``vdla timing``."""

import json
from dataclasses import asdict

import click

from vdla.cli._options import reports_errors, takes_target_alone
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import ToolError
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
@click.option(
    "--estimate", is_flag=True, help="Route nothing: print the estimate, its interval, and what limits it."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@reports_errors
@takes_target_alone
def command(target: Target, family: str, seeds: int, estimate: bool, as_json: bool) -> None:
    """Place and route the core; print its clock and its slowest paths.

    Shift registers around the core keep its wide ports off the pins. Slack is against the clock of the
    target (--set clock_mhz=...). Results are kept: the second call with equal hardware routes nothing.

    An estimate takes milliseconds. It leaves out what routing this very design gave, and is what sweeps show
    for designs that were not routed; docs/timing.md says how good it is.
    """
    if estimate:
        click.echo(_estimate(target.config, family, as_json))
        return
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


def _estimate(config: AcceleratorConfig, family: str, as_json: bool) -> str:
    """Return the estimated clock of a core as text.

    Raises:
        ToolError: the store holds no routed designs of this hardware.
    """
    from vdla.explore.silicon.clock import estimated_clock

    estimate = estimated_clock(config, family)
    if estimate is None:
        raise ToolError(
            f"{config.name} on {family}: explore/silicon/store.json holds too few routed designs of this "
            "hardware for an estimate; vdla timing without --estimate routes the design"
        )
    if as_json:
        return json.dumps(
            {"config": config.name, "digest": config.digest, "target": family, **asdict(estimate)}
        )
    larger = "; the core is larger than every routed design" * estimate.extrapolated
    return (
        f"{config.name} on {family}: {estimate.mhz:.1f} MHz estimated "
        f"({estimate.low:.1f} to {estimate.high:.1f}), limited by {estimate.limited_by}{larger}"
    )
