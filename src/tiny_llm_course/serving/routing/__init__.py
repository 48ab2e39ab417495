"""Replicas of the server as processes, and the learner's router in front of them."""
