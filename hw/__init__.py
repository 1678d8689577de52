"""The accelerator: its specification (``vdla.hw.spec``) and the hardware generator over it."""
