"""From a graph of integer operators to a module that a device runs."""
