"""Boards: the accelerator in an FPGA, or the simulation of its whole system on chip, behind a wire."""
