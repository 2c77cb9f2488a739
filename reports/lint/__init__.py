"""Linting reports, also hand-written ones, against the journal that they speak of."""
