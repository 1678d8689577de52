"""Pages that show a sweep or a run."""
