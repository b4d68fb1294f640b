"""Time and memory, measured."""
