"""Sections that look back and ahead: causes, lessons, questions, actions, conclusion."""

from reports.model import Block, Bullets, Missing, Section
from reports.predicates.learning import REMEDIES, luck, mistakes, questions, strengths
from reports.sections.author import Author, Named, bullets, paragraph
from reports.sections.opening import heading


def causes(author: Author) -> Section:
    """Trigger, what contributed, what followed from it, what was torn down; the last two may lack.

    A cause is an inference and carries its alternatives; what nobody weighed stays open.
    """
    evidence = author.evidence
    first = author.say("incident.opened")
    weighed: list[Named] = [
        ("decision.explanation", {"event": event.id}) for event in evidence.decisions.values()
    ]
    latest = author.known_of(weighed)[-1:]
    torn: list[Named] = [
        ("process.ended", {"identity": victim.model_dump(mode="json")})
        for victim in dict.fromkeys(
            victim
            for thread in evidence.commands
            for victim in getattr(thread.first.payload, "victims", ())
        )
    ]
    return author.section(
        "causes",
        *_titled(author, "trigger", paragraph(first)),
        *_titled(author, "contributing", bullets(latest)),
        *_titled(author, "cascade", bullets(author.all_of(_unanswered(author)))),
        *_titled(author, "teardown", bullets(author.known_of(torn))),
    )


def _unanswered(author: Author) -> list[Named]:
    return [n for n in mistakes(author.evidence) if n[0] == "mistake.unanswered"]


def _titled(author: Author, key: str, block: Block | None) -> tuple[Block, Block]:
    return heading(author.words.titles[key]), block or Missing()


def well_wrong_lucky(author: Author) -> Section:
    """Safeguards that worked, assumptions that failed, good ends on thin support."""
    evidence = author.evidence
    return author.section(
        "well_wrong_lucky",
        *_titled(author, "went_well", bullets(author.all_of(strengths(evidence)))),
        *_titled(author, "went_wrong", bullets(author.all_of(mistakes(evidence)))),
        *_titled(author, "got_lucky", bullets(author.all_of(luck(evidence)))),
    )


def open_questions(author: Author) -> Section:
    """What the record leaves undecided, with what would settle it."""
    found: Bullets | None = bullets(author.all_of(questions(author.evidence)), ordered=True)
    return author.section("questions", found)


def actions(author: Author) -> Section:
    """What to do so that the next time goes better, each with its test of being done."""
    evidence = author.evidence
    rules = [*mistakes(evidence), *luck(evidence), *questions(evidence)]
    named: list[Named] = [
        ("action.item", {"rule": rule, "args": dict(args)})
        for rule, args in rules
        if rule in REMEDIES
    ]
    said = {sentence.text: sentence for sentence in author.all_of(named)}
    return author.section("actions", bullets(said.values(), ordered=True))


def significance(author: Author) -> Section:
    """Only what rests on two incidents or more."""
    return author.section("significance", paragraph(author.say("incident.earlier")))


def conclusion(author: Author) -> Section:
    """The end, what it rests on, and what stays open."""
    return author.section(
        "conclusion",
        paragraph(
            author.say("incident.closed"),
            author.say("verdict.verification"),
            author.say("signal.innocents"),
            *author.all_of(questions(author.evidence)),
        ),
    )
