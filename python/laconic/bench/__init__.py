"""Measurements side by side, in one run: see `python -m laconic.bench --help`."""
