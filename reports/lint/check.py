"""Linting one report against one journal."""

from collections.abc import Iterable

from journal import Reader
from reports.lint.document import read
from reports.lint.findings import Context, Finding, Ground
from reports.lint.record import record
from reports.lint.rules import (
    causes,
    cited,
    claimed,
    commands,
    evidence,
    facts,
    instants,
    integrity,
    numbers,
    things,
    told,
    wording,
)
from reports.render.overrides import Overrides

ALL = (
    *wording.RULES,
    *commands.RULES,
    *evidence.RULES,
    *causes.RULES,
    *told.RULES,
    *things.RULES,
    *numbers.RULES,
    *instants.RULES,
    *cited.RULES,
    *facts.RULES,
    *integrity.RULES,
)


def lint(
    text: str,
    reader: Reader,
    *,
    incident: str | None = None,
    ground: Ground | None = None,
    earlier: Iterable[str] = (),
    overrides: Overrides | None = None,
) -> tuple[Finding, ...]:
    """What is wrong with a report in Markdown, HTML or plain text; in order of lines.

    A generated report is compared with its regeneration, and is right when it is that; of any other
    each sentence that cites events in our words is compared with our sentences on them, and all are
    held to the rules. With
    ``earlier`` reports on the same, contradictions between them are found too. ``overrides`` are
    the words and pages that a generated report was made with. Whoever lints many reports on one
    journal reads it once and gives its ``ground``.
    """
    context = Context(
        document=read(text),
        ground=ground or Ground(record(reader, incident)),
        earlier=tuple(read(other) for other in earlier),
        source=text,
        overrides=overrides,
    )
    if integrity.one_line(context, reader):
        return ()
    ours = integrity.generated(text)
    compared = set((integrity.regenerated if ours else claimed.claimed)(context, reader))
    if ours and not compared and not context.earlier:
        return tuple(sorted(wording.secrets(context)))  # what the journal says, word by word
    held = integrity.standing_lines(context, reader)
    found = {finding for rule in ALL for finding in rule(context) if finding.line not in held}
    return tuple(sorted(found | compared))
