"""Passes over graphs, one per file: frozen dataclasses whose `run` returns a graph that means the same."""
