"""Multi-head latent attention (MLA): one latent vector per token instead of its keys and values."""
