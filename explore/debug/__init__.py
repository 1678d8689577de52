"""A recorded run at the resolution of instructions: its state at any cycle, and what each instruction waited
for."""
