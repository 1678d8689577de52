"""Loop programs to instruction streams for the accelerator."""
