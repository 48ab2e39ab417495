"""An LLM inference engine on MLX, built day by day along the course's book."""
