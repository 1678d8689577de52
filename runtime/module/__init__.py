"""Modules: compiled networks as one file; running them needs no compiler."""
