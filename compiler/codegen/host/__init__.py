"""Loop programs as native code for the host."""
