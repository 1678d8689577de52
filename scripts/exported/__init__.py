"""Exported modules on this machine: their C runs as a program, the accelerator is a device of the kit."""
