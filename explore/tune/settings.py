"""How a network is tuned."""

from dataclasses import dataclass

TRIALS_PER_TASK = 32  # where no budget is given
BATCH = 16  # trials that are proposed together: a model learns after each batch, while workers wait


@dataclass(frozen=True)
class Settings:
    """How a network is tuned.

    Attributes:
        explorer: its name, which records have.
        seed: of the explorers.
        trials: in all, with the trials of an interrupted tuning; None: TRIALS_PER_TASK for each task, or as
            many as the minutes allow.
        minutes: after which no more trials are proposed; None: the trials alone end the tuning.
        batch: trials of a task that are proposed together.
    """

    explorer: str
    seed: int = 0
    trials: int | None = None
    minutes: float | None = None
    batch: int = BATCH

    def budget(self, tasks: int) -> int | None:
        """Return the trials for a number of tasks; None where time alone is limited."""
        if self.trials is None and self.minutes is None:
            return TRIALS_PER_TASK * tasks
        return self.trials
