"""Functions and blocks, by family, that are compiled with and without a GPU."""
