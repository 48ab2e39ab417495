"""RoPE for sequences longer than those a model was trained on."""
