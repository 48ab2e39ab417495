"""`pdm run train`: from a text file to a folder that `--model` accepts, by the code of week 5."""
