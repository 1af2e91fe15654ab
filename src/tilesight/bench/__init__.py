"""Measuring on a GPU."""
