"""The options of commands that measure with many workers."""

import click
from click.decorators import FC


def takes_cluster(function: FC) -> FC:
    """Add the options of a Dask cluster: the command gets `cluster` and `resource`."""
    resource = click.option(
        "--resource",
        metavar="NAME",
        help="Dask resource of which each measurement takes 1. Workers get resources by dask worker "
        "--resources NAME=AMOUNT.  [default: any worker measures]",
    )
    cluster = click.option("--cluster", metavar="ADDRESS", help="Scheduler of a Dask cluster that measures.")
    return cluster(resource(function))


def check_workers(option: str, processes: int | None, cluster: str | None, resource: str | None) -> None:
    """Refuse options of a command that do not go together.

    Args:
        option: of the command, with the number of `processes` on this machine.

    Raises:
        UsageError: naming the options.
    """
    if processes and cluster:
        raise click.UsageError(f"{option} is for this machine; a cluster has its own workers")
    if resource and not cluster:
        raise click.UsageError(
            "--resource is for the workers of a cluster; give its scheduler with --cluster"
        )
