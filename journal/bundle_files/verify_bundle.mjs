// Verify this bundle: node verify_bundle.mjs KEY_LINE [ANCHOR_FILE [FOLDER]]. Standard library only.
// A second implementation, written apart from verify_bundle.py: both pass the same vectors.
import { createHash, createHmac, createPublicKey, verify as verifySignature } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

class Finding extends Error {}
const need = (holds, text) => { if (!holds) throw new Finding(text); };
const sha = (...parts) => createHash("sha256").update(Buffer.concat(parts)).digest();
const LEAF = Buffer.from([0]);
const NODE = Buffer.from([1]);
const DER_ED25519 = Buffer.from("302a300506032b6570032100", "hex");

// From a pipe or a device one would read for ever.
const isFile = (path) => statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;

// The lines of a file; only an anchor that is being written may go on behind its last line end.
function splitLines(path, mayGoOn = false) {
  need(isFile(path), `MALFORMED ${basename(path)} is no file`);
  const bytes = readFileSync(path);
  const lines = [];
  let start = 0;
  for (let end; (end = bytes.indexOf(10, start)) >= 0; start = end + 1) {
    lines.push(bytes.subarray(start, end));
  }
  const ended = start === bytes.length;
  need(ended || mayGoOn, `MALFORMED ${basename(path)}: no line end at its end`);
  return lines;
}

const rows = (path, mayGoOn) =>
  splitLines(path, mayGoOn).map((line) => JSON.parse(line.toString("utf8")));

// The canonical form: keys in order, no spaces. The profile has ASCII keys and no floats.
function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value !== null && typeof value === "object") {
    const keys = Object.keys(value).sort();
    return `{${keys.map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`).join(",")}}`;
  }
  return JSON.stringify(value);
}

// What the key signed; null where it signed nothing. Each signature that names it must be right.
function openNote(note, keyLine) {
  const gap = note.indexOf("\n\n");
  need(gap >= 0, "MALFORMED note");
  const text = note.slice(0, gap + 1);
  const [name, number, ...rest] = keyLine.trim().split("+");
  const key = Buffer.from(rest.join("+"), "base64").subarray(1);
  const publicKey = createPublicKey({
    key: Buffer.concat([DER_ED25519, key]), format: "der", type: "spki",
  });
  const mine = note.slice(gap + 2).split("\n")
    .map((line) => line.split(" "))
    .filter(([, by]) => by === name)
    .map(([, , blob]) => Buffer.from(blob, "base64"))
    .filter((blob) => blob.subarray(0, 4).toString("hex") === number);
  for (const blob of mine) {
    const good = verifySignature(null, Buffer.from(text), publicKey, blob.subarray(4));
    need(good, "BAD_SIGNATURE of a note");
  }
  if (mine.length === 0) return null;
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
    need(isFile(path) || destroyed, `BLOB_MISSING ${place} ${name}`);
    if (isFile(path)) {
      const blob = readFileSync(path);
      const digest = createHmac("sha256", blob.subarray(0, 32)).update(blob.subarray(32));
      need(digest.digest("hex") === out.c, `BLOB_CORRUPT ${place} ${name}`);
    }
  }
}

function readHeads(folder, about, ours, keyLine) {
  const heads = new Map();
  for (const { note } of rows(join(folder, "seals.jsonl"))) {
    const head = openNote(note, keyLine);
    need(head, "BAD_SIGNATURE another key signed a seal");
    need(head.origin.startsWith(ours) && about.format === 2, "FOREIGN seal, or another format");
    heads.set(`${head.origin} ${head.size}`, head.root);
  }
  return heads;
}

// Origin -> the sizes that the anchor holds of it under this key.
function readAnchor(anchor, ours, heads, keyLine) {
  const roots = new Map();
  const sizes = new Map();
  for (const { note } of anchor) {
    const copy = openNote(note, keyLine);
    if (copy === null || !copy.origin.startsWith(ours)) continue;
    const place = `${copy.origin} ${copy.size}`;
    for (const known of [roots.get(place), heads.get(place)]) {
      need(known === undefined || known.equals(copy.root), "FORK of the anchor");
    }
    roots.set(place, copy.root);
    sizes.set(copy.origin, [...(sizes.get(copy.origin) ?? []), copy.size]);
  }
  return sizes;
}

function checkPlace(event, before, incident, place) {
  need((event.incident ?? incident) === incident, `FOREIGN ${place}`);
  const goesOn = before === null || event.stream > before.stream
    || (event.stream === before.stream && event.seq > before.seq);
  need(goesOn, `SEQ_WRONG ${place}`);
}

function checkPaths(line, event, paths, origin, heads, place) {
  const leaf = sha(LEAF, line);
  need(Object.keys(paths).length > 0, `ROOT_MISMATCH ${place}`);
  for (const [size, path] of Object.entries(paths)) {
    const root = heads.get(`${origin} ${size}`);
    const found = event.seq < Number(size) ? climb(leaf, event.seq, Number(size), path) : null;
    need(root && found !== null && found.equals(root), `ROOT_MISMATCH ${place}`);
  }
}

function verify(folder, keyLine, anchor) {
  const about = JSON.parse(readFileSync(join(folder, "bundle.json"), "utf8"));
  const ours = `agentops-journal/${about.journal}/`;
  const heads = readHeads(folder, about, ours, keyLine);
  const kept = readAnchor(anchor, ours, heads, keyLine);
  const lines = splitLines(join(folder, "events.jsonl"));
  const proofs = rows(join(folder, "proofs.jsonl"));
  need(lines.length > 0 && lines.length === proofs.length, "TRUNCATED events and proofs differ in number");
  const events = lines.map((line) => JSON.parse(line.toString("utf8")));
  const redacted = new Set(
    events.filter((event) => event.kind === "redacted")
      .map((event) => `${event.data.event} ${event.data.attachment}`),
  );
  let before = null;
  let anchored = true;
  events.forEach((event, number) => {
    const place = `at ${event.stream}:${event.seq}`;
    const origin = ours + event.stream;
    need(lines[number].equals(Buffer.from(canonical(event))), `LINE_MALFORMED ${place}`);
    checkPlace(event, before, about.incident, place);
    checkPaths(lines[number], event, proofs[number], origin, heads, place);
    // Under the first copied seal that covers it, nobody can have changed it since.
    const covering = (kept.get(origin) ?? []).filter((size) => size > event.seq);
    anchored &&= covering.length > 0 && String(Math.min(...covering)) in proofs[number];
    checkOutputs(folder, event, redacted, place);
    before = event;
  });
  return { said: `${lines.length} events of ${about.incident}`, anchored };
}

const [keyLine = "", anchorPath = "", folder = dirname(fileURLToPath(import.meta.url))] =
  process.argv.slice(2);
if (keyLine.split("+").length < 3 || (anchorPath && !isFile(anchorPath))) {
  console.error("node verify_bundle.mjs KEY_LINE [ANCHOR_FILE [FOLDER]]");
  process.exit(2);
}
try {
  const { said, anchored } = verify(folder, keyLine, anchorPath ? rows(anchorPath, true) : []);
  console.log(`${anchored ? "INTACT" : "UNANCHORED"} ${said}`);
  process.exitCode = anchored ? 0 : 3;
} catch (fault) {
  console.error(fault instanceof Finding ? fault.message : `MALFORMED or forged: ${fault}`);
  process.exitCode = 1;
}
