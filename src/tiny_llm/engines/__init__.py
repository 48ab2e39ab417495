"""What puts an engine together: a model, its memory and the scheduler over both. It stands on all other rooms."""
