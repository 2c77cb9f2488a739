// Verify this bundle: node verify_bundle.mjs KEY_LINE [ANCHOR_FILE [FOLDER]]. Standard library only.
// A second implementation, written apart from verify_bundle.py: both pass the same vectors.
import { createHash, createHmac, createPublicKey, verify as verifySignature } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

class Finding extends Error {}
const need = (holds, text) => { if (!holds) throw new Finding(text); };
const sha = (...parts) => createHash("sha256").update(Buffer.concat(parts)).digest();
const LEAF = Buffer.from([0]);
const NODE = Buffer.from([1]);
const DER_ED25519 = Buffer.from("302a300506032b6570032100", "hex");

function splitLines(path) {
  const bytes = readFileSync(path);
  const lines = [];
  for (let start = 0, end; (end = bytes.indexOf(10, start)) >= 0; start = end + 1) {
    lines.push(bytes.subarray(start, end));
  }
  return lines;
}

const rows = (path) => splitLines(path).map((line) => JSON.parse(line.toString("utf8")));

// The canonical form: keys in order, no spaces. The profile has ASCII keys and no floats.
function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value !== null && typeof value === "object") {
    const keys = Object.keys(value).sort();
    return `{${keys.map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`).join(",")}}`;
  }
  return JSON.stringify(value);
}

function openNote(note, keyLine) {
  const gap = note.indexOf("\n\n");
  need(gap >= 0, "MALFORMED note");
  const text = note.slice(0, gap + 1);
  const [name, , ...rest] = keyLine.trim().split("+");
  const key = Buffer.from(rest.join("+"), "base64").subarray(1);
  const line = note.slice(gap + 2).split("\n").find((one) => one.split(" ")[1] === name);
  need(line, "BAD_SIGNATURE another key signed it");
  const publicKey = createPublicKey({
    key: Buffer.concat([DER_ED25519, key]), format: "der", type: "spki",
  });
  const signature = Buffer.from(line.split(" ")[2], "base64").subarray(4);
  need(verifySignature(null, Buffer.from(text), publicKey, signature), "BAD_SIGNATURE of a note");
  const [origin, size, root] = text.split("\n");
  return { origin, size: Number(size), root: Buffer.from(root, "base64") };
}

// RFC 9162, section 2.1.3.2. Sizes stay far below 2**31, so 32-bit shifts are safe.
function climb(leaf, index, size, path) {
  let node = leaf;
  let at = index;
  let last = size - 1;
  for (const hex of path) {
    const sibling = Buffer.from(hex, "hex");
    if (last === 0) return null;
    if (at & 1 || at === last) {
      node = sha(NODE, sibling, node);
      while (at !== 0 && !(at & 1)) { at >>= 1; last >>= 1; }
    } else {
      node = sha(NODE, node, sibling);
    }
    at >>= 1;
    last >>= 1;
  }
  return last === 0 ? node : null;
}

function checkOutputs(folder, event, redacted, place) {
  for (const [name, out] of Object.entries(event.out ?? {})) {
    const path = join(folder, "blobs", out.c);
    const destroyed = redacted.has(`${event.id} ${name}`);
    need(existsSync(path) || destroyed, `BLOB_MISSING ${place} ${name}`);
    if (existsSync(path)) {
      const blob = readFileSync(path);
      const digest = createHmac("sha256", blob.subarray(0, 32)).update(blob.subarray(32));
      need(digest.digest("hex") === out.c, `BLOB_CORRUPT ${place} ${name}`);
    }
  }
}

function checkAnchor(anchor, ours, heads, keyLine) {
  const kept = new Map();
  for (const { note } of anchor.filter((row) => row.note.startsWith(ours))) {
    const { origin, size, root } = openNote(note, keyLine);
    kept.set(`${origin} ${size}`, root);
  }
  let all = true;
  for (const [origin, { size, root }] of heads) {
    const there = kept.get(`${origin} ${size}`);
    need(there === undefined || there.equals(root), "FORK against the anchor");
    all = all && there !== undefined;
  }
  return all;
}

function verify(folder, keyLine, anchor) {
  const { journal } = JSON.parse(readFileSync(join(folder, "bundle.json"), "utf8"));
  const ours = `agentops-journal/${journal}/`;
  const heads = new Map();
  for (const { note } of rows(join(folder, "seals.jsonl"))) {
    const head = openNote(note, keyLine);
    need(head.origin.startsWith(ours), "FOREIGN seal");
    heads.set(head.origin, head);
  }
  const lines = splitLines(join(folder, "events.jsonl"));
  const proofs = rows(join(folder, "proofs.jsonl"));
  need(lines.length > 0 && lines.length === proofs.length, "TRUNCATED events and proofs differ in number");
  const events = lines.map((line) => JSON.parse(line.toString("utf8")));
  const redacted = new Set(
    events.filter((event) => event.kind === "redacted")
      .map((event) => `${event.data.event} ${event.data.attachment}`),
  );
  const leaves = new Map();
  events.forEach((event, number) => {
    const place = `at ${event.stream}:${event.seq}`;
    const origin = ours + event.stream;
    need(lines[number].equals(Buffer.from(canonical(event))), `LINE_MALFORMED ${place}`);
    need(event.seq === proofs[number].seq, `SEQ_WRONG ${place}`);
    need(!leaves.has(`${origin} ${event.seq}`), `SEQ_WRONG ${place} twice`);
    const leaf = sha(LEAF, lines[number]);
    const head = heads.get(origin);
    need(head, `UNSEALED ${place}`);
    const root = climb(leaf, event.seq, head.size, proofs[number].path);
    need(root !== null && root.equals(head.root), `ROOT_MISMATCH ${place}`);
    const before = leaves.get(`${origin} ${event.seq - 1}`);
    need(before === undefined || before === event.prev, `LINE_CHANGED ${place}`);
    leaves.set(`${origin} ${event.seq}`, leaf.toString("hex"));
    checkOutputs(folder, event, redacted, place);
  });
  return { count: lines.length, anchored: checkAnchor(anchor, ours, heads, keyLine) };
}

const [keyLine = "", anchorPath = "", folder = dirname(fileURLToPath(import.meta.url))] =
  process.argv.slice(2);
try {
  const { count, anchored } = verify(folder, keyLine, anchorPath ? rows(anchorPath) : []);
  console.log(`${anchored ? "INTACT" : "UNANCHORED"} ${count} events`);
  process.exitCode = anchored ? 0 : 3;
} catch (fault) {
  console.error(fault instanceof Finding ? fault.message : `MALFORMED or forged: ${fault}`);
  process.exitCode = 1;
}
