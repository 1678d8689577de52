"""Tuning: a search over the schedules of an operator, measured by the cycle simulator."""
