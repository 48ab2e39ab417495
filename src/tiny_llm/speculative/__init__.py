"""Speculative decoding: tokens are guessed at little cost, and one step of the model judges all of them."""
