"""A folder of its own, named after its file, because `evaluate` looks for metrics in this way."""
