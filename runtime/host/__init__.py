"""What a network does on the CPU: one NumPy function per operator, in the meaning of the ONNX operator
specification."""
