"""A router in front of several replicas: choose one, forward to it, and notice when one fails."""
