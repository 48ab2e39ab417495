"""Training of the embedded models with PyTorch: from a text file to a folder that `--model` accepts."""
