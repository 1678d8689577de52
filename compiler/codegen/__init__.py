"""Code generation: instruction streams for the accelerator, native code for the host."""
