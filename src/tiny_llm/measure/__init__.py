"""What a step of a model takes, what it must take, and how near to that it comes."""
