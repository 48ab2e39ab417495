"""Flash attention: tiled attention that never materializes the full score matrix."""
