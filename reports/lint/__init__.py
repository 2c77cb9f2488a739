"""Linting reports, also hand-written ones, against the journal that they speak of."""

from reports.lint.check import lint
from reports.lint.findings import RULES, Finding

__all__ = ["RULES", "Finding", "lint"]
