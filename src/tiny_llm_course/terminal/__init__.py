"""Terminal input and output: lines, tables, colors, keys."""
