"""Modules as C99: what a bare-metal CPU beside the accelerator needs to run a compiled network."""
