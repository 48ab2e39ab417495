"""Multi-head latent attention: one short vector a token in the place of its keys and values."""
