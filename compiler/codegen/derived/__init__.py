"""Schedules without templates: spaces derived from tensor expressions by rules."""
