#!/usr/bin/env python3
"""Kill a tuning with SIGKILL again and again, and workers of a Dask cluster; merge the logs of two machines.

The digits network is tuned four times: undisturbed; killed KILLS times and resumed; on a cluster of two local
workers, one of which is killed; in halves whose logs are merged and resumed. Every log must end with the same
records, none twice. Nothing is settled: that would depend on the halves. While it runs, a
second tuning into its log must be refused. Exit status 1 otherwise.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np

from vdla.cli._options import reports_errors
from vdla.compiler.codegen.tuned.log import merge, read_log
from vdla.compiler.codegen.tuned.record import TuningRecord
from vdla.explore.tune.known import DEFAULT
from vdla.hw.spec.children import python_command
from vdla.hw.spec.extras import require_package
from vdla.runtime.arrays import write_npz

NETWORK = Path(__file__).parents[1] / "examples" / "digits" / "digits.onnx"
SAMPLES = "samples.npz"
EXPLORER = "evolutionary"


class Bench:
    """Starts tunings of the network in a folder.

    Args:
        folder: for their logs.
        trials: of a whole tuning.
        seed: of its explorers.
    """

    def __init__(self, folder: Path, trials: int, seed: int) -> None:
        self.folder, self.trials, self.seed = folder, trials, seed
        write_npz(
            folder / SAMPLES, {"image": np.random.default_rng(0).random((4, 1, 1, 8, 8)).astype(np.float32)}
        )

    def start(self, log: Path, *options: str, trials: int | None = None) -> subprocess.Popen:
        """Start a tuning into a log."""
        line = [*python_command("vdla"), "tune", NETWORK, "-o", log, "--config", "tiny", "--no-settle"]
        line += ["--calibrate", self.folder / SAMPLES, "--explorer", EXPLORER, "--seed", self.seed]
        line += ["--trials", self.trials if trials is None else trials, *options]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        return subprocess.Popen(
            list(map(str, line)), env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
        )

    def whole(self, log: Path, *options: str, trials: int | None = None) -> None:
        """Tune to the end.

        Raises:
            SystemExit: the tuning fails.
        """
        process = self.start(log, *options, trials=trials)
        errors = process.communicate()[1].decode()
        if process.returncode:
            raise SystemExit(f"tuning into {log} ended with status {process.returncode}: {errors}")

    def killed(self, log: Path, kills: int, rng: random.Random) -> list[int]:
        """Kill a tuning at random moments; return how many records it had kept at each."""
        moments = []
        for number in range(kills):
            process = self.start(log)
            end = rng.randrange(self.trials * number // kills, self.trials * (number + 1) // kills)
            while lines(log) <= end and process.poll() is None:
                time.sleep(0.001)
            time.sleep(rng.random() * 0.1)
            process.send_signal(signal.SIGKILL)
            process.communicate()
            moments.append(lines(log))
        return moments

    def refused(self, log: Path) -> bool:
        """Whether a second tuning into a log is refused while the first goes on."""
        first = self.start(log)
        while not lines(log) and first.poll() is None:
            time.sleep(0.005)
        first.send_signal(signal.SIGSTOP)
        second = self.start(log)
        errors = second.communicate()[1].decode()
        first.send_signal(signal.SIGCONT)
        first.communicate()
        return second.returncode == 2 and "is in use by another process" in errors

    def on_cluster(self, log: Path) -> None:
        """Tune on two local Dask workers, and kill one worker in the middle."""
        from distributed import LocalCluster

        with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
            victim = next(iter(cluster.workers.values())).pid
            process = self.start(log, "--cluster", cluster.scheduler_address)
            while lines(log) < self.trials // 2 and process.poll() is None:
                time.sleep(0.005)
            os.kill(victim, signal.SIGKILL)
            process.communicate()


def lines(log: Path) -> int:
    """Return how many records a log holds."""
    return log.read_bytes().count(b"\n") if log.exists() else 0


def same(first: Path, second: Path) -> bool:
    """Whether two logs hold the same records, none of them twice."""
    texts = [sorted(record.text for record in read_log(log).records) for log in (first, second)]
    return texts[0] == texts[1] and len(set(texts[0])) == len(texts[0])


def numbers(records: Sequence[TuningRecord]) -> list[int]:
    """Return the numbers of trials, in order."""
    return sorted(record.trial for record in records if record.explorer != DEFAULT)


def halves(bench: Bench, whole: Path, rng: random.Random) -> bool:
    """Whether the logs of a killed tuning and of half the trials merge, and end as the whole tuning."""
    first, second, both = (bench.folder / name for name in ("first", "second", "both"))
    bench.killed(first, 1, rng)
    bench.whole(second, trials=bench.trials // 2)
    merged = merge([first, second], both)
    known = {record.text for log in (first, second) for record in read_log(log).records}
    kept = {record.text for record in merged} == known and len(merged) == len(known)
    bench.whole(both)
    return kept and same(whole, both)


@click.command(help=__doc__)
@click.option("--trials", default=120, show_default=True, type=click.IntRange(10))
@click.option("--kills", default=5, show_default=True)
@click.option("--seed", default=0, show_default=True)
@reports_errors
def main(trials: int, kills: int, seed: int) -> None:
    require_package("distributed", "killing tunings")
    verdicts, rng = {}, random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="tunings.") as name:
        bench = Bench(Path(name), trials, seed)
        whole, interrupted, remote = (Path(name) / part for part in ("whole", "killed", "cluster"))
        verdicts[f"{trials} trials: a second tuning is refused"] = bench.refused(whole)
        ends = numbers(read_log(whole).records) == list(range(1, trials + 1))
        verdicts["undisturbed: every trial is kept once"] = ends
        moments = bench.killed(interrupted, kills, rng)
        bench.whole(interrupted)
        verdicts[f"killed at {', '.join(map(str, moments))} records: same log"] = same(whole, interrupted)
        verdicts["logs of two machines merged and resumed: same log"] = halves(bench, whole, rng)
        bench.on_cluster(remote)
        verdicts["Dask cluster of two workers, one killed: same log"] = same(whole, remote)
    for text, met in verdicts.items():
        click.echo(f"{'ok   ' if met else 'WRONG'} {text}")
    sys.exit(0 if all(verdicts.values()) else 1)


if __name__ == "__main__":
    main()
