"""The engine that puts week 4's parts together: windows and sinks, scaled RoPE and experts, as a checkpoint asks."""
