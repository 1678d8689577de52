"""Import of ONNX models, from operator set 7 to the newest, into graphs of a single operator set."""
