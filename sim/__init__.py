"""The simulator: what a program means and how many cycles it takes."""
