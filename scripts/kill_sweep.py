#!/usr/bin/env python3
"""Kill a sweep with SIGKILL again and again, and workers of a Dask cluster; compare the tables.

The sweep of SPEC (60 points by default) runs undisturbed, then killed KILLS times on the way and resumed,
then on a cluster of two local workers, one of which is killed. All must end with the same points.parquet and
layers.parquet, byte for byte. While it runs, a second sweep into its folder must be refused. Exit status 1
otherwise.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click

from vdla.cli._options import reports_errors
from vdla.explore.sweep.folder import JOURNAL, LAYERS, POINTS
from vdla.explore.sweep.run import Progress, backend_of, planned, silicon_for, sweep
from vdla.explore.sweep.specification import read
from vdla.hw.spec.children import python_command
from vdla.hw.spec.extras import require_package

SMALL = Path(__file__).with_name("kill_sweep.toml")


def start(specification: Path, folder: Path) -> subprocess.Popen:
    """Start the command."""
    line = [*python_command("vdla"), "sweep", str(specification), "-o", str(folder)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(line, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)


def lines(folder: Path) -> int:
    """Return how many points a folder holds."""
    journal = folder / JOURNAL
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


def killed(specification: Path, folder: Path, kills: int, points: int, rng: random.Random) -> list[int]:
    """Kill a sweep at random moments; return how many points it had kept at each."""
    moments = []
    for number in range(kills):
        process, end = start(specification, folder), rng.randrange(points * number // kills, points)
        while lines(folder) <= min(end, points * (number + 1) // kills) and process.poll() is None:
            time.sleep(0.001)
        time.sleep(rng.random() * 0.2)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        moments.append(lines(folder))
    return moments


def refused(specification: Path, folder: Path) -> bool:
    """Whether a second sweep in the folder of a running sweep is refused."""
    first = start(specification, folder)
    while not (folder / JOURNAL).exists() and first.poll() is None:
        time.sleep(0.01)
    second = start(specification, folder)
    errors = second.communicate()[1].decode()
    first.communicate()
    return second.returncode == 2 and "is in use by another sweep" in errors


def on_cluster(specification: Path, folder: Path) -> None:
    """Run a sweep on two local workers, and kill one worker in the middle."""
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        victims = [info.pid for info in list(cluster.workers.values())[:1]]

        def kill(progress: Progress) -> None:
            if victims and progress.done >= progress.total // 2:
                os.kill(victims.pop(), signal.SIGKILL)

        wanted = read(specification)
        plan = planned(wanted, specification.parent, silicon_for(wanted))
        sweep(plan, folder, backend_of(None, cluster.scheduler_address), kill)


def same(first: Path, second: Path) -> bool:
    """Whether two folders have the same tables."""
    return all((first / name).read_bytes() == (second / name).read_bytes() for name in (POINTS, LAYERS))


@click.command(help=__doc__)
@click.argument(
    "specification", metavar="[SPEC]", default=SMALL, type=click.Path(exists=True, path_type=Path)
)
@click.option("--kills", default=5, show_default=True)
@click.option("--seed", default=0, show_default=True)
@reports_errors
def main(specification: Path, kills: int, seed: int) -> None:
    require_package("distributed", "killing sweeps")
    points = len(planned(read(specification), specification.parent, None).space.points())
    verdicts = {}
    with tempfile.TemporaryDirectory(prefix="sweeps.") as name:
        whole, interrupted, remote = (Path(name) / part for part in ("whole", "killed", "cluster"))
        verdicts[f"{points} points: a second sweep is refused"] = refused(specification, whole)
        moments = killed(specification, interrupted, kills, points, random.Random(seed))
        start(specification, interrupted).communicate()
        verdicts[f"killed at {', '.join(map(str, moments))} points: same tables"] = same(whole, interrupted)
        on_cluster(specification, remote)
        verdicts["Dask cluster of two workers, one killed: same tables"] = same(whole, remote)
    for text, met in verdicts.items():
        click.echo(f"{'ok   ' if met else 'WRONG'} {text}")
    sys.exit(0 if all(verdicts.values()) else 1)


if __name__ == "__main__":
    main()
