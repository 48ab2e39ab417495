"""`pdm run attention`: the heads of a model, drawn."""
