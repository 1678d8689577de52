"""The kinds of tasks that the accelerator executes: one file for each kind."""
