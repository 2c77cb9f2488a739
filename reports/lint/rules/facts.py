"""Rules on what happened: a sentence says what the record says, of deeds, counts, times, order.

A sentence that the record contradicts in every incident that it may speak of is a finding. Not
here: how it is weighed (``reports.lint.facts``).
"""

from collections.abc import Iterator

from reports.lint.findings import Context, Finding, at


def told(context: Context) -> Iterator[Finding]:
    """C09, C12, C13, C16, C18, C23: nothing on record contradicts it."""
    for sentence in context.claims:
        for rule, message in context.weighed(sentence).wrong:
            yield at(sentence, rule, message)


RULES = (told,)
