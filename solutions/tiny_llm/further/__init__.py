"""The engine that combines week 4's parts as a checkpoint needs them: windows, sinks, scaled RoPE and experts."""
