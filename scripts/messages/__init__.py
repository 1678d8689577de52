"""The page of faults and error messages: programs that provoke them, and what to do."""
