"""RoPE for texts longer than those a model was trained on."""
