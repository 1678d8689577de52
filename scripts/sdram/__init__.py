"""The accelerator in front of LiteDRAM, in Verilator, and its comparison with the cycle simulator."""
