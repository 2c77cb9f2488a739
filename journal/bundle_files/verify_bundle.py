"""Verify this bundle: python3 verify_bundle.py KEY_LINE [ANCHOR_FILE [FOLDER]]."""

import base64, hashlib, hmac, json, sys
from pathlib import Path
from typing import Any
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

def need(holds: object, finding: str) -> object: return holds or sys.exit(finding)

def sha(data: bytes) -> bytes: return hashlib.sha256(data).digest()

def rows(path: Path) -> list[Any]: return [json.loads(line) for line in path.open("rb")]

def open_note(note: str, key_line: str) -> tuple[str, int, bytes]:
    text, _, signatures = note.partition("\n\n")
    found = dict(line.split(" ")[1:] for line in signatures.splitlines())
    name, _, key = key_line.split("+", 2)
    need(name in found, "BAD_SIGNATURE another key signed it")
    public = Ed25519PublicKey.from_public_bytes(base64.b64decode(key)[1:])
    public.verify(base64.b64decode(found[name])[4:], f"{text}\n".encode())
    origin, size, root = text.split("\n")[:3]
    return origin, int(size), base64.b64decode(root)

def climb(node: bytes, index: int, last: int, path: list[str]) -> bytes:  # RFC 9162, 2.1.3.2
    for sibling in map(bytes.fromhex, path):
        left = index & 1 or index == last
        node = sha(b"\x01" + (sibling + node if left else node + sibling))
        while left and index and not index & 1: index, last = index >> 1, last >> 1
        index, last = index >> 1, last >> 1
    return node if last == 0 else b""

def verify(folder: Path, key_line: str, anchor: str) -> tuple[int, bool]:
    ours = f"agentops-journal/{json.loads((folder / 'bundle.json').read_bytes())['journal']}/"
    seals = [open_note(row["note"], key_line) for row in rows(folder / "seals.jsonl")]
    need(all(origin.startswith(ours) for origin, _, _ in seals), "FOREIGN seal")
    heads = {origin: (size, root) for origin, size, root in seals}
    lines = (folder / "events.jsonl").read_bytes().split(b"\n")[:-1]
    events, paths = [json.loads(line) for line in lines], rows(folder / "proofs.jsonl")
    need(0 < len(events) == len(paths), "TRUNCATED events and proofs differ in number")
    gone = [(event["data"].get("event"), event["data"].get("attachment")) for event in events]
    leaves: dict[tuple[str, int], bytes] = {}
    for line, event, proof in zip(lines, events, paths, strict=True):
        origin, seq = ours + event["stream"], event["seq"]
        at = f"at {event['stream']}:{seq}"
        same = json.dumps(event, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        need(same.encode() == line, f"LINE_MALFORMED {at}")
        need(seq == proof["seq"] and (origin, seq) not in leaves, f"SEQ_WRONG {at}")
        leaf, (size, root) = sha(b"\x00" + line), heads[origin]
        need(climb(leaf, seq, size - 1, proof["path"]) == root, f"ROOT_MISMATCH {at}")
        need(leaves.get((origin, seq - 1), b"").hex() in {"", event["prev"]}, f"LINE_CHANGED {at}")
        leaves[origin, seq] = leaf
        for name, out in event.get("out", {}).items():
            blob = folder / "blobs" / out["c"]
            need(blob.exists() or (event["id"], name) in gone, f"BLOB_MISSING {at} {name}")
            data = blob.read_bytes() if blob.exists() else None
            good = data is None or hmac.digest(data[:32], data[32:], "sha256").hex() == out["c"]
            need(good, f"BLOB_CORRUPT {at} {name}")
    notes = [row["note"] for row in (rows(Path(anchor)) if anchor else [])]
    kept = {n[:2]: n[2] for n in (open_note(x, key_line) for x in notes if x.startswith(ours))}
    need(all(kept.get((o, s), r) == r for o, (s, r) in heads.items()), "FORK against the anchor")
    return len(lines), all((origin, size) in kept for origin, (size, _) in heads.items())

if __name__ == "__main__":
    _, key, anchor, folder = [*sys.argv, "", "", ""][:4]
    sys.excepthook = lambda _, fault, __: print(f"BAD_SIGNATURE or malformed: {fault!r}")
    count, anchored = verify(Path(folder or Path(__file__).parent), key, anchor)
    print("INTACT" if anchored else "UNANCHORED", count, "events")
    sys.exit(0 if anchored else 3)
