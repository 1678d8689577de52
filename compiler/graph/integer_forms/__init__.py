"""Integer forms: which float operators become operators on int8 tensors, under which rules."""
