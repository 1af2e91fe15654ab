"""torch.compile for a GPU that is not here: capture, read, execute."""
