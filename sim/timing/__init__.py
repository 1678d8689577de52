"""The cycle simulator: when everything of a run happens, without its arithmetic."""
