"""How the embedded models are made: from a text file to a folder that `--model` takes. PyTorch trains them."""
