"""An LLM inference engine on MLX, built day by day. The course's book says what to write where."""
