"""FPGA boards: descriptions, the system on chip around the accelerator, and builds of bitstreams."""
