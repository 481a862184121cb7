"""Tools that an agent may call: one tool a file, declared by a typed function."""
