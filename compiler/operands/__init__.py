"""Where the operands of programs lie in DRAM: one file for each address map."""
