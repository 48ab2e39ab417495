"""Training over ranks: each has some of the layers, or some of the rows."""
