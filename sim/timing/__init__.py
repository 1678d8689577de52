"""The cycle simulator: the timing of a run, without its arithmetic."""
