"""The example networks: their graphs, with seeded weights, and how they are quantised."""
