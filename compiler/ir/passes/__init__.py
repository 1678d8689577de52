"""Passes over loop programs, one per file."""
