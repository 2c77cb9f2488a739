"""Verify this bundle: python3 verify_bundle.py KEY_LINE [ANCHOR_FILE [FOLDER]]."""

import base64, hashlib, hmac, json, pathlib, sys
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

def need(holds: object, finding: str) -> object: return holds or sys.exit(finding)

def rows(path: pathlib.Path) -> list[bytes]:
    *lines, rest = path.read_bytes().split(b"\n") if path.is_file() else [b"no file"]
    return lines if need(not rest, f"MALFORMED {path.name}: no line end at its end") else []

def open_note(row: bytes, key_line: str) -> tuple[str, int, bytes]:
    text, _, signatures = json.loads(row)["note"].partition("\n\n")
    name, number, key = key_line.split("+", 2)
    given = [line.split(" ")[2] for line in signatures.splitlines() if f" {name} " in line]
    mine = [blob[4:] for blob in map(base64.b64decode, given) if blob[:4].hex() == number]
    public = Ed25519PublicKey.from_public_bytes(base64.b64decode(key)[1:])
    for signature in mine: public.verify(signature, f"{text}\n".encode())
    origin, size, root = text.split("\n")[:3]
    return (origin, int(size), base64.b64decode(root)) if mine else ("", 0, b"")

def climb(node: bytes, index: int, last: int, path: list[str]) -> bytes:  # RFC 9162, 2.1.3.2
    for sibling in map(bytes.fromhex, path):
        left = index & 1 or index == last
        node = hashlib.sha256(b"\x01" + (sibling + node if left else node + sibling)).digest()
        while left and index and not index & 1: index, last = index >> 1, last >> 1
        index, last = index >> 1, last >> 1
    return node if last == 0 else b""

def verify(folder: pathlib.Path, key: str, anchor: pathlib.Path) -> tuple[str, str]:
    about, kept = json.loads((folder / "bundle.json").read_bytes()), dict[tuple[str, int], bytes]()
    ours, incident = f"agentops-journal/{about['journal']}/", about["incident"]
    notes = [open_note(row, key) for row in rows(folder / "seals.jsonl")]
    need(all(of for of, _, _ in notes), "BAD_SIGNATURE another key signed a seal")
    need(all(of.startswith(ours) for of, _, _ in notes) and f"{about['format']}" == "2", "FOREIGN")
    heads = {(of, size): root for of, size, root in notes}
    copies = [row for row in anchor.read_bytes().split(b"\n")[:-1] if ours.encode() in row]
    for of, size, root in [open_note(row, key) for row in copies]:
        need(kept.setdefault((of, size), root) == root == heads.get((of, size), root), "FORK")
    lines, proofs = rows(folder / "events.jsonl"), rows(folder / "proofs.jsonl")
    need(0 < len(lines) == len(proofs), "TRUNCATED events and proofs differ in number")
    events, last, anchored = [json.loads(line) for line in lines], ("", -1), True
    gone = [(event["data"].get("event"), event["data"].get("attachment")) for event in events]
    for line, event, paths in zip(lines, events, map(json.loads, proofs), strict=True):
        stream, seq = event["stream"], event["seq"]
        at, of, leaf = f"at {stream}:{seq}", ours + stream, hashlib.sha256(b"\x00" + line).digest()
        canon = json.dumps(event, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        need(canon.encode() == line, f"LINE_MALFORMED {at}")
        need(event.get("incident", incident) == incident, f"FOREIGN {at}")
        last = (stream, seq) if need((stream, seq) > last, f"SEQ_WRONG {at}") else last
        met = [climb(leaf, seq, int(n) - 1, p) == heads.get((of, int(n))) for n, p in paths.items()]
        need(met and all(met), f"ROOT_MISMATCH {at}")
        anchored &= str(min((n for o, n in kept if o == of and n > seq), default=0)) in paths
        for name, out in event.get("out", {}).items():
            blob = folder / "blobs" / out["c"]
            data = blob.read_bytes() if blob.is_file() else None
            need(data is not None or (event["id"], name) in gone, f"BLOB_MISSING {at} {name}")
            made = out["c"] if data is None else hmac.digest(data[:32], data[32:], "sha256").hex()
            need(made == out["c"], f"BLOB_CORRUPT {at} {name}")
    return "INTACT" if anchored else "UNANCHORED", f"{len(lines)} events of {incident}"

if __name__ == "__main__":
    _, key, copies, folder = [*sys.argv, "", "", ""][:4]
    place, home = pathlib.Path(copies or "/dev/null"), folder or pathlib.Path(__file__).parent
    sys.excepthook = lambda _, fault, __: print(f"BAD_SIGNATURE or malformed: {fault!r}")
    if "+" not in key or (copies and not place.is_file()): print(__doc__); sys.exit(2)
    print(*(said := verify(pathlib.Path(home), key, place))); sys.exit(3 * (said[0] != "INTACT"))
