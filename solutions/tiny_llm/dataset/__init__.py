"""Training data and loss: packed rows of documents, a resumable loader, cross-entropy."""
