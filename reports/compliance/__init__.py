"""What an auditor samples, item by item, answered from the journal with event references."""

from reports.compliance.answers import Answer, Item, Surroundings
from reports.compliance.check import comply, render_compliance
from reports.compliance.completeness import unexplained
from reports.compliance.history import Unexplained

__all__ = [
    "Answer",
    "Item",
    "Surroundings",
    "Unexplained",
    "comply",
    "render_compliance",
    "unexplained",
]
