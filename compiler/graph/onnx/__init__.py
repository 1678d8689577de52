"""Import of ONNX models, of operator set 9 to the newest, into one form."""
