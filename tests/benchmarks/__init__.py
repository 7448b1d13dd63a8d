"""Measured ratios against hand-written bounds, printed and never asserted: `make bench`."""
