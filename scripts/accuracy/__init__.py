"""Networks and yardsticks of `scripts/bench_accuracy.py`."""
