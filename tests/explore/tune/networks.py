"""Small networks to tune, workers in this process, and an explorer, for the tests."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from vdla.compiler.codegen.tuned.log import TuningLog, read_log
from vdla.compiler.tasks.convolution import ConvolutionTask
from vdla.compiler.tasks.pooling import PoolingTask
from vdla.compiler.te.operators.sizes import Convolution, Pooling
from vdla.explore.tune.session import Session
from vdla.explore.tune.settings import Settings
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.target import Target

TARGET = Target(TINY)
LARGE = ConvolutionTask(Convolution(16, 8, 8, 16, padding=(1, 1, 1, 1)))
SMALL = ConvolutionTask(Convolution(8, 4, 4, 16, (1, 1)))
POOLING = PoolingTask(Pooling(4, 8, 8, (2, 2)))
LAYERS = {LARGE: ["a", "c", "d"], POOLING: ["pool"], SMALL: ["b"]}


class Shuffled:
    """An explorer that proposes places in random order, and writes down what it is told."""

    def __init__(self, space, seed, others, told):
        self.left = np.random.default_rng(seed).permutation(len(space)).tolist()
        self.told, self.name = told, str(space.task)
        self.told.append(
            (
                self.name,
                "others",
                sorted((str(other_space.task), len(results)) for other_space, results in others),
            )
        )

    def ask(self, count):
        places, self.left = self.left[:count], self.left[count:]
        return places

    def tell(self, places, cycles):
        self.told.append((self.name, list(places), list(cycles)))
        self.left = [place for place in self.left if place not in places]


class Here:
    """Workers in this process, whose results come in some order.

    Args:
        dies_after: trials, at which Ctrl-C is pressed.
    """

    def __init__(self, job, seed=0, dies_after=None, done=None):
        self.job, self.rng, self.dies_after, self.done = job, random.Random(seed), dies_after, done

    def measure(self, things):
        things = list(things)
        self.rng.shuffle(things)
        for thing in things:
            if self.dies_after is not None and len(self.done) == self.dies_after:
                raise KeyboardInterrupt
            self.done.append(thing)
            yield self.job.measure(thing)


def here(seed=0, dies_after=None, done=None):
    """Return what makes workers in this process."""
    finished = [] if done is None else done

    @contextmanager
    def workers(job) -> Iterator[Here]:
        yield Here(job, seed, dies_after, finished)

    return workers


def tune(
    path,
    workers,
    told=None,
    layers=LAYERS,
    explorer="stand-in",
    report=lambda progress: None,
    batch=8,
    **settings,
):
    """Tune into a log; return the progress at the end."""
    log = TuningLog(path)
    heard = [] if told is None else told
    making = lambda space, seed, others: Shuffled(space, seed, others, heard)  # noqa: E731
    try:
        return Session(layers, TARGET, log, Settings(explorer, batch=batch, **settings), making, report).run(
            workers
        )
    finally:
        log.close()


def records(path):
    """Return the records of a log as a set of texts, and how many there are."""
    log_records = read_log(path).records
    return {record.text for record in log_records}, len(log_records)
