"""How many trials a tuning has."""

import pytest

from vdla.explore.tune.settings import TRIALS_PER_TASK, Settings


@pytest.mark.parametrize(
    ("settings", "trials"),
    [
        (Settings("random"), 5 * TRIALS_PER_TASK),
        (Settings("random", trials=7), 7),
        (Settings("random", trials=0), 0),
        (Settings("random", trials=7, minutes=1.0), 7),
        (Settings("random", minutes=1.0), None),
    ],
)
def test_the_budget_follows_from_trials_and_time(settings, trials):
    assert settings.budget(5) == trials
