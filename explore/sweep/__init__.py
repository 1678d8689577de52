"""Sweeps over targets: specification, points, evaluation, results."""
