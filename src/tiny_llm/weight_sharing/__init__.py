"""Weight sharing: a tied embedding and head, and layers that share matrices."""
