"""Tasks, targets and figures of `scripts/bench_tuning.py`."""
