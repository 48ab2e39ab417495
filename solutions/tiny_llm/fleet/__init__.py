"""A simulated fleet: the scheduler of week 3 on many replicas, on a simulated clock."""
