"""Pages that show a sweep, a run or a tuning log."""
