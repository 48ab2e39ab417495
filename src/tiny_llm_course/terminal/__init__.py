"""Terminal input and output: lines, tables, colours, keys."""
