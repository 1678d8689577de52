"""From lowered loop programs to what runs: instruction streams for the accelerator, native code for the
host."""
