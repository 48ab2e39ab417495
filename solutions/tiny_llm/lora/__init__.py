"""Fine-tuning: chat examples, LoRA, adapter files, and several adapters in one batch."""
