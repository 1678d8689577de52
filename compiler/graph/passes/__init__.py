"""Passes over graphs, one per file: frozen dataclasses whose `run` takes a graph and returns one that means
the same."""
