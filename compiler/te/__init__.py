"""Tensor expressions, stated as mathematics, and schedules, which say how to carry them out."""
