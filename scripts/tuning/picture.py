"""The curves of explorers as a picture."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

NAMES = {"model": "annealing over a learned model", "evolutionary": "evolutionary", "random": "random"}


def draw(curves: Mapping[str, NDArray[np.float64]], path: Path) -> None:
    """Draw float64[seeds, trials] for each explorer: the mean over seeds, and least to greatest."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for name, rows in curves.items():
        trials = np.arange(1, rows.shape[1] + 1)
        (line,) = axes.plot(trials, rows.mean(axis=0), label=NAMES[name])
        axes.fill_between(trials, rows.min(axis=0), rows.max(axis=0), color=line.get_color(), alpha=0.2)
    axes.set(
        xlabel="trials", ylabel="best cycles so far, over the best known", ylim=(0.99, 1.6), xlim=(1, None)
    )
    axes.set_title("Geometric mean over the tasks; bands: least to greatest of the seeds", fontsize=10)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, metadata={"Date": None})
