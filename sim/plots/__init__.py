"""Pictures of runs; they need matplotlib (`pip install "vdla[plot]"`)."""
