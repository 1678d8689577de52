"""Tensor expressions, and schedules, which say how to execute them."""
