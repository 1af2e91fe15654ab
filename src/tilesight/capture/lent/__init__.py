"""A `cuda` lent to a script where there is no GPU: its tensors live on the CPU and answer `cuda:0`."""
