"""Passes over graphs: frozen dataclasses whose `run` returns a graph that means the same."""
