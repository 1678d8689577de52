"""Importing ONNX models: any of opsets 9 to the newest, into one form."""
