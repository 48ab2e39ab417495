"""How the commands print and read: lines, tables, colours, keys."""
