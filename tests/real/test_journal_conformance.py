"""Three verifiers, one set of vectors; and the trail that a foreign verifier accepts."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from journal import Reader, bundle_files
from journal.bundle import VERIFIERS, export_bundle
from journal.bundle_check import verify_bundle
from journal.envelope import read_line
from journal.errors import EventNotFound, JournalExists
from journal.proving import prove
from journal.trail import TrailSigner, keystore_text, trail
from journal.upkeep import redact, rotate_key
from tests.support.journals import Place, completed, intended, note, twenty_events
from tests.support.vectors import CASES, good_bundle, write_case

VECTORS = Path(__file__).parent.parent / "golden" / "journal" / "vectors"
FILES = Path(bundle_files.__file__).parent
NAMES = [case.name for case in CASES]


def files_below(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def expected(name: str) -> tuple[int, str]:
    value = json.loads((VECTORS / name / "expected.json").read_bytes())
    return value["exit"], value["says"]


def arguments(name: str) -> list[str]:
    folder = VECTORS / name
    anchor = folder / "anchor.jsonl"
    return [
        (folder / "key").read_text().strip(),
        str(anchor) if anchor.exists() else "",
        str(folder / "bundle"),
    ]


def said(program: list[str]) -> tuple[int, str]:
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    words = (done.stdout + done.stderr).split()
    return done.returncode, words[0] if words else ""


def test_the_committed_vectors_are_all_there() -> None:
    assert sorted(path.name for path in VECTORS.iterdir()) == sorted(NAMES)


@pytest.mark.parametrize("name", ["good", "redacted", "foreign-seal"])
def test_the_same_source_gives_the_committed_bytes(name: str, tmp_path: Path) -> None:
    """The stored form has not moved: lines, hashes, proofs and seals come out as they were."""
    (case,) = [case for case in CASES if case.name == name]
    write_case(case, tmp_path)
    assert files_below(tmp_path) == files_below(VECTORS / name)


@pytest.mark.parametrize("name", NAMES)
def test_the_journals_own_check_says_what_the_vector_demands(name: str) -> None:
    key, anchor, bundle = arguments(name)
    answer = verify_bundle(Path(bundle), key=key, anchors=[Path(anchor)] if anchor else [])
    status = {"intact": 0, "unanchored": 3, "tampered": 1}[answer.status]
    word = answer.status.upper() if answer.finding is None else answer.finding.split()[0]
    assert (status, word) == expected(name), answer.finding


@pytest.mark.parametrize("name", NAMES)
def test_the_bundles_python_verifier_says_the_same(name: str) -> None:
    status, word = said([sys.executable, str(FILES / "verify_bundle.py"), *arguments(name)])
    assert (status, word) == expected(name)


@pytest.mark.needs("node")
@pytest.mark.parametrize("name", NAMES)
def test_the_bundles_node_verifier_says_the_same(name: str) -> None:
    assert said(["node", str(FILES / "verify_bundle.mjs"), *arguments(name)]) == expected(name)


@pytest.mark.needs("node")
def test_after_a_rotation_the_new_key_is_enough_for_streams_that_were_sealed_before(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path)
    first, second = place.create(), place.open()
    for number, journal in enumerate((first, second)):
        journal.append(intended(f"c{number}"))
        journal.append(completed(f"c{number}", stdout=b"PID ARGS\n"))
    second.close()
    new = rotate_key(first)
    first.close()
    bundle = tmp_path / "evidence"
    export_bundle(Reader.open(place.path), "I1", bundle, key_id="x", anchors=[place.anchor])
    assert place.verify().status == "intact"
    given = [new.line, str(place.anchor), str(bundle)]
    assert verify_bundle(bundle, key=new.line, anchors=[place.anchor]).status == "intact"
    python = [sys.executable, str(FILES / "verify_bundle.py")]
    for program in (python, ["node", str(FILES / "verify_bundle.mjs")]):
        assert said([*program, *given]) == (0, "INTACT")


@pytest.mark.needs("node")
@pytest.mark.parametrize("sort", ["pipe", "device"])
@pytest.mark.parametrize("name", ["blob", "events.jsonl", "proofs.jsonl", "seals.jsonl"])
def test_no_verifier_waits_for_a_pipe_or_a_device(name: str, sort: str, tmp_path: Path) -> None:
    shutil.copytree(VECTORS / "good", tmp_path / "good")
    key, anchor, _ = arguments("good")
    bundle = tmp_path / "good" / "bundle"
    path = next((bundle / "blobs").iterdir()) if name == "blob" else bundle / name
    path.unlink()
    if sort == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    word = "BLOB_MISSING" if name == "blob" else "MALFORMED"
    answer = verify_bundle(bundle, key=key, anchors=[Path(anchor)])
    assert (answer.status, (answer.finding or "").split()[0]) == ("tampered", word)
    python = [sys.executable, str(FILES / "verify_bundle.py")]
    for program in (python, ["node", str(FILES / "verify_bundle.mjs")]):
        assert said([*program, key, anchor, str(bundle)]) == (1, word)


@pytest.mark.needs("node")
@pytest.mark.parametrize("given", [[], ["no-key-line"], ["KEY", "/nowhere/anchor.jsonl"]])
def test_a_verifier_that_is_called_wrongly_accuses_nobody(given: list[str]) -> None:
    key = arguments("good")[0]
    words = [key if one == "KEY" else one for one in given]
    python = [sys.executable, str(FILES / "verify_bundle.py")]
    for program in (python, ["node", str(FILES / "verify_bundle.mjs")]):
        status, _ = said([*program, *words])
        assert status == 2


def test_the_python_verifier_is_short_and_imports_nothing_of_ours() -> None:
    text = (FILES / "verify_bundle.py").read_text()
    assert len([line for line in text.splitlines() if line.strip()]) <= 60
    assert "journal." not in text
    assert "import journal" not in text


def test_a_bundle_verifies_with_what_lies_in_it_and_the_owners_key(tmp_path: Path) -> None:
    place = Place(tmp_path)
    twenty_events(place)
    with place.open() as journal:  # a second session, with a super-seal of its own
        journal.append(note("later"))
    bundle = tmp_path / "evidence"
    summary = export_bundle(Reader.open(place.path), "I1", bundle, key_id="x", anchors=[])
    key = place.keys.signing_key().public.line
    assert summary.outputs == 6
    assert {"README.md", *VERIFIERS} <= {path.name for path in bundle.iterdir()}
    shutil.rmtree(place.path)
    status, word = said([sys.executable, str(bundle / VERIFIERS[0]), key, str(place.anchor)])
    assert (status, word) == (0, "INTACT")


def test_a_redacted_output_is_in_no_bundle(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with place.create() as journal:
        journal.append(intended("c1"))
        (event,) = journal.append(completed("c1", stdout=b"Eve Example"))
        redact(journal, event, "stdout", "personal data")
    summary = export_bundle(Reader.open(place.path), "I1", tmp_path / "b", key_id="x")
    assert (summary.outputs, summary.redacted) == (0, 1)
    for content in files_below(tmp_path / "b").values():
        assert b"Eve Example" not in content


def test_an_unsealed_event_or_unknown_incident_is_refused_in_one_line(tmp_path: Path) -> None:
    place = Place(tmp_path)
    journal = place.create()
    journal.append(note("x"))
    with pytest.raises(EventNotFound, match="journal seal"):
        export_bundle(journal.reader(), "I1", tmp_path / "b", key_id="x")
    journal.close()
    with pytest.raises(EventNotFound, match="I9"):
        export_bundle(Reader.open(place.path), "I9", tmp_path / "b", key_id="x")
    (tmp_path / "b").mkdir()
    with pytest.raises(JournalExists):
        export_bundle(Reader.open(place.path), "I1", tmp_path / "b", key_id="x")


def test_a_proof_is_for_one_place_only(tmp_path: Path) -> None:
    place = Place(tmp_path)
    twenty_events(place)
    reader = Reader.open(place.path)
    proofs = [prove(reader, event) for event in reader.events()]
    assert len({proof.path for proof in proofs}) == len(proofs)
    assert all(proof.size == len(proofs) for proof in proofs)


@pytest.mark.needs("python-package:aat_verify")
@pytest.mark.parametrize("tampered", [False, True])
def test_the_trail_is_accepted_by_a_foreign_verifier(tmp_path: Path, *, tampered: bool) -> None:
    place = good_bundle(tmp_path)
    signer = TrailSigner.new()
    lines = list(trail(Reader.open(place.path).events(), signer))
    assert len(lines) == len(place.lines())
    record = json.loads(lines[4])
    assert record["action_detail"]["event_leaf"] == read_line(place.lines()[4]).leaf
    if tampered:
        lines[4] = lines[4].replace(b"I1", b"I2").replace(b"PID", b"PIE").replace(b"ada", b"eve")
    (tmp_path / "trail.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    (tmp_path / "keys.json").write_text(keystore_text(signer))
    done = subprocess.run(
        [sys.executable, "-m", "aat_verify.cli", str(tmp_path / "trail.jsonl"),
         "--keys", str(tmp_path / "keys.json"), "--json"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert json.loads(done.stdout)["verified"] is not tampered, done.stdout
