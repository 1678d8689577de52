"""Search over accelerators: sweeps, area and clock of their points, and the pages that show the results."""
