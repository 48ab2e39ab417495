"""`pdm run attention`: attention weights, head by head."""
