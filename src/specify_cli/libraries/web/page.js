"use strict";
// Everything on this page but the first line is made here, from the lines of the record, after they were checked.
// Nothing recorded becomes markup: it is only ever the text of an element.
const SHELL = "@SHELL@";
const GENESIS = "0".repeat(64);
const BAD = ["error", "denied", "failed", "FAIL", "fail", "abandoned", "deny"];
const UNSEEN = /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}\p{Zl}\p{Zp}]/u;
const utf8 = new TextEncoder();
const find = (id) => document.getElementById(id);
const text = (value) => (typeof value === "string" ? value : JSON.stringify(value));
const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

// --- checking

async function sha256(bytes) {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
}

function hex(bytes) {
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function digest(value) {
  return hex(await sha256(utf8.encode(value)));
}

function unbase64(value) {
  return Uint8Array.from(atob(value), (char) => char.charCodeAt(0));
}

function join(...parts) {
  return Uint8Array.from(parts.flatMap((part) => [...part]));
}

async function checkShell(source) {
  // The page without what it carries and without this script, which the policy in its head vouches for.
  const shell = source.replace(/script-src 'sha256-[^']*'/, "script-src ''").replaceAll('<textarea hidden=""></textarea>', "");
  return document.compatMode === "CSS1Compat" && (await digest(shell)) === SHELL;
}

function readText(id) {
  // A long text goes on in the text areas behind its first, which have no name.
  const pieces = [];
  for (let area = find(id); area?.tagName === "TEXTAREA" && (area.id === id || !area.id); area = area.nextElementSibling) pieces.push(area.textContent);
  return pieces.join("");
}

function readBlock(id) {
  const held = readText(id);
  const cut = held.lastIndexOf("\n");
  return { body: held.slice(0, Math.max(cut, 0)), seal: held.slice(cut + 1) };
}

async function checkLines(lines) {
  const checked = [];
  const digests = await Promise.all(lines.map((raw) => digest(raw.slice(0, -72))));
  let before = null;
  for (const [number, raw] of lines.entries()) {
    const wrong = [];
    let fields = {};
    try {
      const parsed = JSON.parse(raw);
      if (isObject(parsed)) fields = parsed;
      else wrong.push("it is no object");
    } catch {
      wrong.push("it is no JSON");
    }
    const seal = /,"~":"([0-9a-f]{64})"\}$/.exec(raw);
    if (!seal) wrong.push("it has no seal");
    else if (digests[number] !== seal[1] && !isObject(fields.erased)) wrong.push("its bytes are not those that were sealed");
    if (seal && "~" in fields) {
      // A changed line is held against its neighbours as it stands, so that it alone is named.
      if (fields.prev !== (before ? before["~"] : GENESIS)) wrong.push("it does not follow the line before it");
      if (fields.seq !== (before ? before.seq + 1 : 0)) wrong.push("its number does not follow");
      if (before?.invocation_id && fields.invocation_id !== before.invocation_id) wrong.push("it is of another record");
      before = fields;
    }
    // What is left of a line with erased members: an annex has to say so of these very bytes.
    const left = seal && digests[number] !== seal[1] ? digests[number] : "";
    checked.push({ number, raw, fields, wrong, left });
    if (wrong.length && before === null) before = { "~": GENESIS, seq: -1 };
  }
  return checked;
}

async function checkAnnexes(lines, record) {
  const tip = record.length ? record[record.length - 1].fields : {};
  const checked = [];
  for (const [number, raw] of lines.entries()) {
    const seal = /,"~":"([0-9a-f]{64})"\}$/.exec(raw);
    const wrong = [];
    let fields = {};
    if (!seal || (await digest(raw.slice(0, -72))) !== seal[1]) wrong.push("its bytes are not those that were sealed");
    else fields = JSON.parse(raw);
    // An order may be given while a record is open: then it hangs on the last line of its opening.
    const ends = ["erased", "held", "released"].includes(fields.event) ? [tip, record[3]?.fields ?? {}, record[0]?.fields ?? {}] : [tip];
    if (!wrong.length && !ends.some((end) => fields.prev === end["~"])) wrong.push("it does not follow the end of the record");
    checked.push({ number: record.length + number, raw, fields, wrong });
  }
  const erased = checked.filter((annex) => !annex.wrong.length && annex.fields.event === "erased" && Array.isArray(annex.fields.lines))
    .flatMap((annex) => annex.fields.lines);
  for (const line of record.filter((one) => one.left && !one.wrong.length)) {
    const members = JSON.stringify(line.fields.erased.members);
    if (!erased.some((row) => row.seal === line.fields["~"] && row.digest === line.left && JSON.stringify(row.members) === members)) {
      line.wrong.push("members are missing, and no annex says of it as it stands that they were erased");
    }
  }
  return checked;
}

async function checkProof(proof, seals) {
  // C2SP tlog-proof over an RFC 6962 log, with the signed checkpoint below it.
  const [head, ...rest] = proof.text.split("\n\n");
  const note = rest.join("\n\n");
  const lines = head.split("\n");
  const at = lines.findIndex((line) => line.startsWith("index "));
  const path = lines.slice(at + 1).map(unbase64);
  const [origin, size, root] = note.split("\n");
  if (!seals.has(proof.seal)) return null;
  let index = Number(lines[at].slice(6));
  let last = Number(size) - 1;
  if (!(index <= last)) return null;
  const entry = `${proof.kind} ${proof.invocation_id} ${proof.seal}`;
  let node = await sha256(join([0], utf8.encode(entry)));
  for (const sibling of path) {
    if (last === 0) return null;
    if (index % 2 === 1 || index === last) {
      node = await sha256(join([1], sibling, node));
      while (index % 2 === 0 && index !== 0) {
        index = Math.floor(index / 2);
        last = Math.floor(last / 2);
      }
    } else {
      node = await sha256(join([1], node, sibling));
    }
    index = Math.floor(index / 2);
    last = Math.floor(last / 2);
  }
  if (last !== 0 || hex(node) !== hex(unbase64(root))) return null;
  return { origin, size, kind: proof.kind, seal: proof.seal, signed: await checkSignature(note, proof.key) };
}

async function checkSignature(note, key) {
  // Signed note: the key is `name+hash+base64(algorithm, key)`; a browser without Ed25519 cannot tell.
  const [name, , encoded] = key.split("+");
  const material = unbase64(key.slice(name.length + 10));
  if (!encoded || material[0] !== 1) return null;
  const cut = note.lastIndexOf("\n\n");
  const body = utf8.encode(note.slice(0, cut + 1));
  const found = note.slice(cut + 2).split("\n").find((line) => line.startsWith(`\u2014 ${name} `));
  try {
    const made = await crypto.subtle.importKey("raw", material.slice(1), { name: "Ed25519" }, false, ["verify"]);
    for (const line of note.slice(cut + 2).split("\n").filter((line) => line.startsWith(`\u2014 ${name} `))) {
      const signature = unbase64(line.split(" ")[2]).slice(4);
      if (signature.length === 64 && (await crypto.subtle.verify("Ed25519", made, signature, body))) return true;
    }
    return found ? false : null;
  } catch {
    return null;
  }
}

async function checkApproval(fields) {
  // SSHSIG (OpenSSH PROTOCOL.sshsig) by an Ed25519 key; null where this script cannot tell.
  try {
    const armored = /^-----BEGIN SSH SIGNATURE-----\n([A-Za-z0-9+/=\n]+)-----END SSH SIGNATURE-----\n?$/.exec(fields.signature);
    if (!armored) return { holds: false };
    const blob = unbase64(armored[1].replaceAll("\n", ""));
    let at = 10;
    const read = (from = blob) => {
      const size = new DataView(from.buffer, from.byteOffset + at, 4).getUint32(0);
      at += 4 + size;
      if (at > from.length) throw new RangeError("cut");
      return from.slice(at - size, at);
    };
    if (new TextDecoder().decode(blob.slice(0, 6)) !== "SSHSIG") return { holds: false };
    const [key, namespace, reserved, algorithm, signature] = [read(), read(), read(), read(), read()];
    const name = `SHA256:${btoa(String.fromCharCode(...(await sha256(key)))).replace(/=+$/, "")}`;
    at = 0;
    if (new TextDecoder().decode(read(key)) !== "ssh-ed25519") return { holds: null, name };
    const material = read(key);
    at = 0;
    read(signature);
    const signed = read(signature);
    const kind = new TextDecoder().decode(algorithm) === "sha256" ? "SHA-256" : "SHA-512";
    const statement = Object.fromEntries(Object.entries(fields).filter(([member]) => !UNSIGNED.has(member)));
    const hash = new Uint8Array(await crypto.subtle.digest(kind, utf8.encode(`spec-kitty approval v1\n${JSON.stringify(statement)}\n`)));
    const field = (bytes) => join(new Uint8Array([bytes.length >> 24, bytes.length >> 16, bytes.length >> 8, bytes.length]), bytes);
    const message = join(utf8.encode("SSHSIG"), field(namespace), field(reserved), field(algorithm), field(hash));
    const made = await crypto.subtle.importKey("raw", material, { name: "Ed25519" }, false, ["verify"]);
    const right = new TextDecoder().decode(namespace) === "spec-kitty-approval";
    return { holds: right && (await crypto.subtle.verify("Ed25519", made, signed, message)), name };
  } catch (error) {
    return { holds: error instanceof RangeError || error.name === "InvalidCharacterError" ? false : null };
  }
}

function placeLines(lines, annexes, proofs) {
  // A seal covers every line before it; an annex hangs on the last line and is covered by no other proof.
  const signed = new Set(proofs.filter((proof) => proof.signed === true).map((proof) => proof.seal));
  const last = lines.findLastIndex((line) => signed.has(line.fields["~"]));
  lines.forEach((line, number) => { line.held = number <= last ? "log" : "seal"; });
  annexes.forEach((line) => { line.held = signed.has(line.fields["~"]) ? "log" : "seal"; });
  for (const line of [...lines, ...annexes]) {
    if (line.wrong.length) line.held = "changed";
    else if (line.left) line.held = "erased";
    else if (isClaim(line)) line.claim = true;
  }
}

function isClaim({ fields, approval }) {
  return isObject(fields.imported) || (fields.event === "approval" && approval?.holds !== true);
}

// --- what the story and the lines say

function textOf(value, objects) {
  // A captured text as far as the page has it, with a sign where it was cut.
  if (!isObject(value)) return value === undefined || value === null ? "" : text(value);
  const kept = objects.get(value.object) ?? text(value.head ?? "");
  return typeof value.tail === "string" && value.tail && !objects.has(value.object) ? `${kept}\n[…]\n${value.tail}` : kept;
}

const PRINTED = ["stdout", "stderr", "output", "content", "text", "llmContent", "text_result_for_llm"];

function joinTexts(value) {
  // A text, or the texts that a list of parts holds.
  if (!Array.isArray(value)) return typeof value === "string" ? value : undefined;
  const parts = value.filter((part) => isObject(part) && "text" in part);
  return parts.length ? parts.map((part) => text(part.text)).join("\n") : undefined;
}

function printedOf(value, objects) {
  // What a tool printed: programs wrap it in JSON of their own, which may be cut.
  const kept = textOf(value, objects);
  if (kept.startsWith('"') && (!isObject(value) || objects.has(value.object))) {
    try { return String(JSON.parse(kept)); } catch { return kept; } // what is kept whole is the JSON of a text
  }
  if (!/^[{[]/.test(kept)) return kept;
  try {
    const parsed = JSON.parse(kept);
    const told = isObject(parsed.file) ? parsed.file : parsed;
    const parts = (Array.isArray(parsed) ? [parsed] : PRINTED.map((name) => told[name])).map(joinTexts).filter((part) => part !== undefined);
    if (parts.length) return parts.filter(Boolean).join("\n");
  } catch { /* it was cut */ }
  const found = /"(?:stdout|output|content|text|llmContent|text_result_for_llm)":\s*"((?:[^"\\]|\\.)*)/.exec(kept);
  if (found) try { return JSON.parse(`"${found[1].replace(/[\n\t\r]/g, " ")}"`); } catch { return found[1]; }
  return kept;
}

function diffOf(fields, objects) {
  const diff = textOf(fields.diff, objects);
  if (diff) {
    // The path stands above. Behind the first hunk, what looks like its head is a line that came or went.
    const rows = diff.replace(/\n$/, "").split("\n");
    const begin = rows.findIndex((line) => line.startsWith("@@"));
    return begin < 0 ? rows.filter((line) => !/^(---|\+\+\+) /.test(line)) : rows.slice(begin);
  }
  if (fields.mode !== undefined) return [" nothing but its mode changed"];
  // Of a changed file whose text afterwards alone is kept, no line is said to be new; nor of one that the work tree shows,
  // which can have been moved there, unless each of its lines came.
  const isMoved = fields.witness === "tree" && !/^(\+\w+)+$/.test(text(fields.lines ?? ""));
  const came = (fields.kind === "create" && !isMoved) || fields.before !== undefined ? "+" : " ";
  const sides = [["-", fields.before], [came, fields.after]].map(([sign, value]) => [sign, textOf(value, objects)]);
  return sides.flatMap(([sign, value]) => (value ? value.replace(/\n$/, "").split("\n").map((line) => sign + line) : []));
}

function momentOf(fields) {
  return [fields.at, fields.started_at, fields.completed_at].find((value) => typeof value === "string") ?? "";
}

const MUST_BE_TOLD = ["tool_call", "prompt", "patch_apply", "error", "policy_violation", "approval", "gate_decision", "step_started"];

function* walk(parts) {
  for (const part of parts) {
    yield part;
    yield* walk(part.parts);
  }
}

function numberLines(lines, annexes) {
  // Annexes go on with the numbers of the lines: a story cites both.
  return [...lines, ...annexes.map((line, number) => ({ ...line, fields: { ...line.fields, seq: lines.length + number } }))];
}

function checkStory(story, lines) {
  // Its sentences are the writer's; that it leaves no deed out, and calls none well that failed, is checked.
  const wrong = [];
  const bySeq = new Map(lines.map((line) => [line.fields.seq, line]));
  const cited = new Map();
  for (const part of walk(story.done)) {
    const deeds = part.acts.length ? part.acts : part.seqs.length ? [part] : [];
    for (const deed of deeds) for (const seq of deed.seqs) cited.set(seq, deed);
  }
  for (const { fields } of lines) {
    if (!MUST_BE_TOLD.includes(fields.event) || !Number.isInteger(fields.seq)) continue;
    if (!cited.has(fields.seq)) wrong.push(`the story leaves out line ${fields.seq}`);
  }
  for (const [seq, deed] of cited) {
    const fields = bySeq.get(seq)?.fields;
    if (!fields) wrong.push(`the story names line ${seq}, which is not here`);
    else if (fields.event === "tool_result" && BAD.includes(fields.status) && !["failed", "denied"].includes(deed.outcome)) {
      wrong.push(`the story says that line ${seq} ended well`);
    }
  }
  return wrong.slice(0, 3);
}

const UNSIGNED = new Set(["v", "salt", "seq", "event", "prev", "at", "by", "dedupe", "signature", "~"]);
const TALLIED = { log: "in a log signed by the key in this page", seal: "sealed only", erased: "with erased values, as an annex says" };
const HELD = { log: "log", seal: "sealed only", erased: "erased in part", changed: "CHANGED" };
const UNTOLD = new Set(["v", "salt", "seq", "event", "prev", "~", "invocation_id", "at", "call_id", "dedupe", "lines", "diff", "before", "after",
  "output", "text", "idempotency_key", "started_at", "completed_at", "after_of", "tool", "status", "duration_ms", "side_effect", "agent"]);

function detailsOf({ fields }) {
  return Object.entries(fields).filter(([key]) => !UNTOLD.has(key) && !key.endsWith("_hash"))
    .map(([key, value]) => [key, isObject(value) && typeof value.head === "string" ? textOf(value, new Map()) : text(value)]);
}

function spanOf(millis) {
  if (millis === null || millis === undefined || Number.isNaN(millis)) return "";
  if (millis < 1000) return `${millis} ms`;
  const minutes = Math.round(millis / 60000);
  if (millis < 100000) return `${(millis / 1000).toFixed(1)} s`;
  return minutes < 100 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

function localTime(moment, form) {
  const there = new Date(moment ?? "");
  return Number.isNaN(there.getTime()) ? "" : form.format(there);
}

const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "long" });

// --- showing it

// So many characters of one text are shown, and so many lines of a record at once: a browser lays out no more without a pause.
const SHOWN = 200000;
const LINES_AT_ONCE = 1000;
const TITLE = 160;
const MAPPED = 60;
const LANES = 24;
const BARS = 400;

function make(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function shown(value) {
  // What nobody sees, or what would reorder the line, is spelled out. Of a very long text the beginning is shown.
  let whole = text(value).replaceAll("\r\n", "\n");
  if (whole.length > SHOWN) {
    whole = `${whole.slice(0, SHOWN)}\n[… ${(whole.length - SHOWN).toLocaleString("en")} more characters are in this file and not shown: `
      + "spec-kitty invocations show ID --full]";
  }
  if (!UNSEEN.test(whole.replace(/[\n\t\u200c\u200d]/g, ""))) return document.createTextNode(whole);
  const parts = document.createDocumentFragment();
  let plain = "";
  for (const char of whole) {
    if ("\n\t\u200c\u200d".includes(char) || !UNSEEN.test(char)) {
      plain += char;
      continue;
    }
    parts.append(plain, make("span", { class: "char" }, `\\u{${char.codePointAt(0).toString(16)}}`));
    plain = "";
  }
  parts.append(plain);
  return parts;
}

function coloured(value) {
  // A program's colours as classes; every other sign a terminal would act on is spelled. Of a line that was written over, as a
  // progress bar is, its last state is shown.
  const box = document.createDocumentFragment();
  let names = new Set();
  let over = 0;
  // What would be erased stays, so the signs that erase a line mean nothing.
  const last = value.replace(/\x1b\[[012]?K/g, "").split("\n").map((line) => {
    const states = line.split("\r").filter(Boolean);
    over += Math.max(0, states.length - 1);
    return states.at(-1) ?? "";
  }).join("\n");
  if (over) box.append(make("em", { class: "quiet" }, `[earlier states of lines, written over and only in the raw line: ${over}]\n`));
  for (const [number, piece] of last.split(/\x1b\[([0-9;]*)m/).entries()) {
    if (number % 2 === 0) {
      if (piece) box.append(names.size ? make("span", { class: [...names].join(" ") }, shown(piece)) : shown(piece));
      continue;
    }
    const codes = piece.split(";").map(Number);
    while (codes.length) {
      const code = codes.shift();
      // A colour by its number or by its parts: what follows belongs to it, and is no code.
      if (code === 38 || code === 48) codes.splice(0, { 2: 4, 5: 2 }[codes[0]] ?? 0);
      const isColour = (code >= 30 && code <= 37) || (code >= 90 && code <= 97);
      if (code === 0) names = new Set();
      if (code === 1) names.add("bold");
      if (code === 22) names.delete("bold");
      if (isColour || code === 38 || code === 39) names = new Set(names.has("bold") ? ["bold"] : []);
      if (isColour) names.add(`colour-${code % 10}`);
    }
  }
  return box;
}

function namesOf(names) {
  return names.slice(0, 8).join(", ") + (names.length > 8 ? ` and ${names.length - 8} more` : "");
}

function leavesOf(proofs) {
  // The lines that are leaves of one state of one log are named together.
  const kinds = new Map();
  for (const { kind, origin, size, signed } of proofs) {
    const said = `of ${origin}, ${size} leaves, ${signed === true ? "signed by the key in this page"
      : signed === null ? "signature not checked by this browser" : "SIGNATURE WRONG"}`;
    kinds.set(said, [...(kinds.get(said) ?? []), kind]);
  }
  return [...kinds].map(([said, own]) => `${own.join(", ")}: ${own.length > 1 ? "leaves" : "leaf"} ${said}`).join("; ");
}

function showDiff(all) {
  // The line ends of Windows are no change where every line has one.
  const isOfWindows = all.every((line) => /^(?:@@|\\|--- )|\r$/.test(line));
  const lines = isOfWindows ? all.map((line) => line.replace(/\r$/, "")) : all;
  const rows = [];
  for (let at = 0; at < lines.length;) {
    const gone = [];
    const came = [];
    while (lines[at]?.startsWith("-")) gone.push(lines[at++]);
    while (lines[at]?.startsWith("+")) came.push(lines[at++]);
    if (!gone.length && !came.length) {
      rows.push(make("span", lines[at].startsWith("@@") ? { class: "quiet" } : {}, shown(lines[at++]), "\n"));
      continue;
    }
    const pairs = gone.map((line, number) => differ(line, came[number] ?? "", gone.length === came.length));
    gone.forEach((line, number) => rows.push(markLine("gone", line, pairs[number])));
    came.forEach((line, number) => rows.push(markLine("came", line, pairs[number])));
  }
  return make("pre", { class: "diff", tabindex: "0" }, ...rows);
}

function differ(one, two, arePaired) {
  // How many characters two lines begin and end with alike, behind the sign. Where more lines came than went, or fewer, two
  // lines are held to be one that changed only if half of the shorter is alike.
  const shorter = Math.min(one.length, two.length);
  let begin = 1;
  while (begin < shorter && one[begin] === two[begin]) begin += 1;
  let end = 0;
  while (end < shorter - begin && one.at(-1 - end) === two.at(-1 - end)) end += 1;
  // A character of two halves stays whole.
  if (/[\ud800-\udbff]/.test(one[begin - 1])) begin -= 1;
  if (end && /[\udc00-\udfff]/.test(one.at(-end))) end -= 1;
  return (arePaired && (begin > 1 || end)) || (begin - 1 + end) * 2 > shorter ? { begin, end } : undefined;
}

function markLine(kind, line, alike) {
  if (!alike || line.length - alike.end <= alike.begin) return make("span", { class: kind }, shown(line), "\n");
  const [begin, end] = [alike.begin, line.length - alike.end];
  return make("span", { class: kind }, shown(line.slice(0, begin)), make("b", {}, shown(line.slice(begin, end))), shown(line.slice(end)), "\n");
}

function makeList(pairs) {
  return make("dl", {}, ...pairs.filter(([, value]) => value !== undefined && value !== null && value !== "")
    .flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value instanceof Node ? value : shown(value))]));
}

function makeTable(caption, headings, rows) {
  return make("table", {}, make("caption", {}, caption),
    make("thead", {}, make("tr", {}, ...headings.map((name) => make("th", { scope: "col", class: "when" }, name)))),
    make("tbody", {}, ...rows));
}

const CLOSERS = { agent: "the agent's own word", person: "a person's word", hook: "by how its session ended", doctor: "closed later by doctor" };
const TESTED = { "no change": "nothing was changed, so there was nothing to test", "not run": "none were run" };

function fold(summary, attributes, fill) {
  // A part whose content is made when it is opened, so that a long record is shown at once.
  const box = make("details", attributes, make("summary", {}, summary));
  let filled = false;
  box.fill = () => {
    if (!filled) box.append(...fill());
    filled = true;
  };
  box.addEventListener("toggle", () => { if (box.open) box.fill(); });
  return box;
}

function showPart(part, context) {
  const own = part.seqs.map((seq) => context.bySeq.get(seq)).filter(Boolean);
  const bad = ["failed", "denied"].includes(part.outcome);
  const isEdit = part.kind === "edit" || part.kind === "change";
  const isWords = ["prompt", "answer", "asked"].includes(part.kind);
  const classes = ["part", part.kind, bad ? "bad" : "", isEdit ? "edits" : "", own.some((line) => line.wrong.length) ? "wrong" : ""].join(" ");
  const id = `at-${part.seqs[0] ?? `p${context.count}`}`;
  context.count += 1;
  const approval = own[0] && sayApproval(own[0], part.title);
  const isSameDay = new Date(part.at).toDateString() === new Date(context.began).toDateString();
  const took = [localTime(part.at, isSameDay ? CLOCK : DAY), spanOf(part.duration_ms), approval ? sayHeld(own, context) : own.some((line) => line.claim) ? "a claim" : "", ...part.limits].filter(Boolean).join(" · ");
  const head = [shown(`${bad ? "✗ " : ""}${approval ?? part.title}${part.outcome === "open" && !part.parts.length && part.kind !== "step" ? " (no end is recorded)" : ""}`), " ", make("span", { class: "quiet" }, shown(took))];
  let element;
  if (isWords) {
    const said = own.length ? textOf(own[0].fields.text, context.objects) : "";
    element = make("section", { class: classes, id, tabindex: "-1" }, make(part.kind === "prompt" ? "h3" : "p", { class: "who" }, ...head),
      make("div", { class: "said-text" }, shown(said || "Its text is not kept.")));
  } else if (part.kind === "opening") {
    element = make("section", { class: "part", id });
  } else if (part.parts.length) {
    element = make("section", { class: classes, id, tabindex: "-1" });
    const inner = make("details", part.kind === "step" ? { open: "" } : {}, make("summary", {}, ...head), ...part.parts.map((one) => showPart(one, context)));
    inner.fill = () => {};
    element.append(inner);
    remember(part, element, context);
    return element;
  } else {
    const summary = make("span", {}, ...head);
    element = fold(summary, { class: classes, id, tabindex: "-1" }, () => [...(isEdit ? showBearing(part, context) : []),
      ...(part.acts.length ? part.acts : [part]).flatMap((act) => showAct(act, context))]);
    if (((isEdit && part.acts.length <= 3) || (bad && part.acts.length <= 12)) && context.count < 400) {
      element.fill();
      element.open = true;
    }
  }
  remember(part, element, context);
  element.append(...part.parts.map((one) => showPart(one, context)));
  return element;
}

function showBearing(part, { lines, story }) {
  // Which rules were found by these files, or by the kind of work; nothing where the record does not say.
  const bearing = (story.told.bearing ?? []).filter((one) => one.by_kind || part.acts.some((act) => one.files.includes(act.what)));
  const links = linkRules(bearing, lines);
  return links.length ? [make("p", {}, "Rules found for this file or kind of work: ", ...links)] : [];
}

function remember(part, element, context) {
  context.parts.push({ part, element });
  // A part is found by its name at its first line alone.
  if (part.seqs.length) context.told.set(part.seqs[0], part);
  for (const seq of part.seqs) context.elements.set(seq, element);
}

function showAct(act, context) {
  const { bySeq, objects } = context;
  const found = [];
  const own = act.seqs.map((seq) => bySeq.get(seq)).filter(Boolean);
  if (act.what) {
    const ended = ["failed", "denied"].includes(act.outcome) ? `✗ ${act.outcome}` : act.outcome === "ok" ? "" : act.outcome;
    found.push(make("p", { class: "act" }, make("code", {}, shown(act.what)), " ",
      make("span", { class: "quiet" }, shown([ended, act.result === act.outcome ? "" : act.result, spanOf(act.duration_ms)].filter(Boolean).map((one) => `${one} · `).join("")),
        ...linkLines(act.seqs), ...[sayHeld(own, context)].filter(Boolean).map((held) => ` · ${held}`))));
  }
  const isPatched = own.some((line) => line.fields.event === "patch_apply");
  for (const { fields } of own) {
    if (fields.event === "patch_apply") {
      const rows = diffOf(fields, objects);
      found.push(rows.length ? showDiff(rows) : make("p", { class: "quiet" }, fields.after?.size === 0 ? "It is empty."
        : `The text of this change was ${isErased(fields) ? "erased" : "not kept"}.`));
    }
    const printed = fields.event === "tool_result" ? printedOf(fields.output, objects) : "";
    if (printed && !isPatched) found.push(make("pre", { tabindex: "0" }, coloured(hideImages(printed))));
    found.push(...(["tool_result", "patch_apply"].includes(fields.event) ? showImages({ fields }, context) : []));
  }
  const details = own.flatMap((line) => [...detailsOf(line), ...(isPatched && line.fields.output ? [["output", printedOf(line.fields.output, objects)]] : [])]);
  if (details.length) {
    found.push(fold("as recorded", { class: "quiet" }, () => [makeList(details.map(([key, value]) => [key,
      value.length > 120 ? make("pre", { tabindex: "0" }, shown(value)) : value]))]));
  }
  return found;
}

function isErased({ erased }) {
  return isObject(erased) && ["diff", "after"].some((name) => (Array.isArray(erased.members) ? erased.members : []).includes(name));
}

function linkLines(seqs) {
  return [seqs.length === 1 ? "line " : "lines ", ...seqs.flatMap((seq, at) => [at ? ", " : "", make("a", { href: `#line-${seq}` }, text(seq))])];
}

function sayHeld(lines, { usual }) {
  // How most lines are held stands once, at the top: here only what is otherwise.
  const places = new Set(lines.filter((line) => line.held !== usual).map((line) => HELD[line.held]));
  return [...places, ...(lines.some((line) => line.claim) ? ["a claim"] : [])].join(", ");
}

function sayApproval({ fields, approval }, title) {
  if (fields.event !== "approval") return null;
  if (!approval) return `${title}; nobody signed it`;
  if (approval.holds === false) return `${title}; ITS SIGNATURE DOES NOT HOLD`;
  if (approval.holds === null) return `${title}; its signature was not checked by this browser`;
  return `${title}; signed by the key ${approval.name}, whose key that is was not checked`;
}

// PNG, JPEG, GIF and WebP by their first bytes; nothing else is ever shown as an image.
const IMAGES = [[/^iVBORw0KGgo/, "png"], [/^\/9j\//, "jpeg"], [/^R0lGOD[dl]h/, "gif"], [/^UklGR[A-Za-z0-9+/]{6}XRUJQ/, "webp"]];
const ENCODED = /(?<=^|["',])(?:iVBORw0KGgo|\/9j\/|R0lGOD[dl]h|UklGR[A-Za-z0-9+/]{6}XRUJQ)[A-Za-z0-9+/]{24,}={0,2}/g;
const IMAGE_SIZE = 1400000;

function hideImages(printed) {
  return printed.replace(ENCODED, "[an image]");
}

function showImages({ fields }, { objects, images, said }) {
  const gone = (why) => make("p", { class: "quiet" }, `An image stands here in the record: ${why}.`);
  return Object.values(fields).filter((value) => isObject(value) || typeof value === "string").flatMap((value) => {
    const left = (Array.isArray(said.left_out) ? said.left_out : []).map(text).find((one) => one.startsWith(`${text(value.object)} `) && one.endsWith("with an image)"));
    if (left) return [gone(`it is left out of this page for its size, ${left.split(" ")[1].slice(1)} bytes`)];
    const isCut = value.truncated || ((value.tail || value.object) && !objects.has(value.object));
    const found = images.has(value.object) ? [images.get(value.object)] : textOf(value, objects).match(ENCODED) ?? [];
    return found.map((data) => {
      const type = IMAGES.find(([begins]) => begins.test(data))?.[1];
      if (isCut && !images.has(value.object)) return gone("it was cut when it was recorded");
      if (!type || data.length > IMAGE_SIZE) return gone("it is too large to be shown");
      const image = make("img", { alt: `An image in line ${fields.seq}, as recorded (${type})` });
      image.addEventListener("error", () => image.replaceWith(gone("no browser can draw its bytes")));
      image.src = `data:image/${type};base64,${data}`;
      return image;
    });
  });
}

function hitsOf(lines) {
  const { hits } = lines.find((line) => line.fields.event === "retrieval_response")?.fields ?? {};
  return Array.isArray(hits) ? hits.filter(isObject) : [];
}

function linkRules(bearing, lines) {
  // Only rules that a line names are linked, with the reasons that this line gives.
  const hits = hitsOf(lines);
  return bearing.map(({ uri }) => hits.findIndex((hit) => hit.uri === uri)).filter((at) => at >= 0).flatMap((at, number) => [number ? "; " : "",
    make("a", { href: `#rule-${at}` }, shown(hits[at].uri.replace(/^\w+:\/\//, ""))), " ",
    make("span", { class: "quiet" }, shown(`(${(Array.isArray(hits[at].because) ? hits[at].because : []).map(text).join(", ")})`))]);
}

function ruleIn(context, uri) {
  // The rule as it stands in the text the agent was given.
  const rows = context.split("\n");
  const at = rows.findIndex((row, number) => row === `\`${uri}\`` && rows[number - 1]?.startsWith("### "));
  const end = rows.findIndex((row, number) => number > at && /^##+ /.test(row));
  return at < 0 ? "" : rows.slice(at + 1, end < 0 ? undefined : end).join("\n").trim();
}

function showRules(lines, objects, told) {
  const response = lines.find((line) => line.fields.event === "retrieval_response")?.fields ?? {};
  const started = lines[0]?.fields ?? {};
  const hits = hitsOf(lines);
  const filtered = Array.isArray(response.filters_applied) ? response.filters_applied.filter(isObject) : [];
  const whole = objects.get(started.governance_context_hash);
  const parts = [make("h2", {}, "Told"), make("p", {}, shown(told.summary), ".")];
  if (hits.length) {
    const bearing = told.bearing ?? [];
    if (bearing.length) parts.push(make("p", {}, told.shown.length ? "Chosen for what was asked, as the record says: "
      : "Found for what was asked, as the record says, and shown to nobody: ", ...linkRules(bearing, lines), "."));
    const list = fold("The rules, in the order they bore on the request", {}, () => [make("ol", {}, ...hits.map((hit, number) => {
      const why = isObject(hit.explain) ? Object.entries(hit.explain).map(([key, value]) => `${key} ${text(value)}`).join(", ") : "";
      const rule = whole === undefined ? "" : ruleIn(whole, text(hit.uri ?? ""));
      return make("li", { id: `rule-${number}`, tabindex: "-1" }, make("code", {}, shown(hit.uri ?? "")), " ",
        make("span", { class: "quiet" }, shown([hit.shown, hit.score, why].map((one) => text(one ?? "")).filter(Boolean).join(" "))),
        ...(rule ? [make("pre", { tabindex: "0" }, shown(rule))] : []));
    }))]);
    // Links lead into it, so it is made at once.
    list.fill();
    parts.push(list);
  }
  if (told.judged) parts.push(make("p", {}, shown(`${told.judged[0].toUpperCase()}${told.judged.slice(1)}`), "."));
  if (filtered.length) {
    parts.push(make("p", {}, "Kept back by policy: ", shown(filtered
      .map((item) => `${text(item.uri ?? "")} (${text(item.action ?? "")} by rule ${text(item.rule_id ?? "")})`).join("; "))));
  }
  if (whole !== undefined) {
    parts.push(fold("The whole text of the context", { id: "whole-text" }, () => [make("pre", { tabindex: "0" }, shown(whole))]));
  }
  return parts;
}

function listUnseen(story, { bySeq }) {
  // What changed while nobody was seen to change it: of such a file there is no line but the one that says so.
  return story.left.filter((fact) => fact.seqs.some((seq) => bySeq.get(seq)?.fields.reason === "unseen_change"));
}

function listNameless({ lines }) {
  // The changes of files whose names were erased, or are in no line.
  const seqs = lines.filter(({ fields }) => fields.event === "patch_apply" && fields.ok !== false && (fields.path ?? null) === null).map(({ fields }) => fields.seq);
  return seqs.length ? [{ text: `${seqs.length} ${seqs.length === 1 ? "change" : "changes"} of a file whose name is not kept`, seqs }] : [];
}

function showChanges(story, context) {
  const { bySeq, objects } = context;
  const [unseen, nameless] = [listUnseen(story, context), listNameless(context)];
  if (!story.changed.length && !unseen.length && !nameless.length) return [];
  const linesOf = (file) => file.seqs.map((seq) => bySeq.get(seq)?.fields).filter(Boolean);
  const countOf = (file) => (file.added === null ? "" : ` +${file.added} −${file.removed}`);
  const showEach = (fields) => fields.map((one) => showDiff(diffOf(one, objects)));
  // What a file's changes make of it is the same below its name and in the diff of the whole run.
  const joins = new Map();
  const join = (file) => {
    if (!joins.has(file)) joins.set(file, joinChanges(linesOf(file), objects));
    return joins.get(file);
  };
  const showNet = (file) => {
    const [fields, { net }] = [linesOf(file), join(file)];
    if (fields.length < 2) return showEach(fields);
    const said = (words) => make("p", { class: "quiet" }, words);
    if (!net) return [said(`${fields.length} changes, one after the other: too little of the file is kept to join them to one.`), ...showEach(fields)];
    const tally = (sign) => net.filter((row) => row.startsWith(sign)).length;
    return [said(`${fields.length} changes as one: +${tally("+")} −${tally("-")}`), ...(net.length ? [showDiff(net)] : [])];
  };
  const rows = story.changed.map((file) => fold(make("span", {}, shown(`${file.kind} ${file.path}${countOf(file)}`)), { class: "file" }, () => {
    const fields = linesOf(file);
    const { net, after } = join(file);
    return [...showNet(file), ...(fields.length > 1 && net ? [fold("Each change of it", {}, () => showEach(fields))] : []),
      fold("Before and after", {}, () => showSides(fields, objects, after))];
  }));
  const all = fold("The whole run as one diff", {}, () => story.changed.flatMap((file) => [make("p", {}, make("code", {}, shown(file.path))), ...showNet(file)]));
  const notes = [...nameless, ...unseen].map((fact) => make("p", {}, shown(fact.text), make("span", { class: "quiet" },
    unseen.includes(fact) ? ": what changed in it is not recorded (" : " (", ...linkLines(fact.seqs), ")")));
  return [make("h2", { id: "changes" }, "Changed"), ...rows, ...(rows.length ? [all] : []), ...notes];
}

function keptWhole(value, objects) {
  const isWhole = isObject(value) && typeof value.head === "string" && (objects.has(value.object) || !(value.tail || value.object || value.truncated));
  return isWhole ? textOf(value, objects) : undefined;
}

function showSides(fields, objects, made) {
  // What a file was before its first change and after its last, as far as that is kept. Many programs tell the text before and
  // the change alone: then the text after is what the changes make of it.
  const [first, last] = [fields[0], fields.at(-1)];
  const before = first.kind === "create" ? null : textOf(first.before, objects);
  const after = last.kind === "delete" ? null : textOf(last.after, objects) || made;
  const side = (name, value, gone) => [make("p", { class: "quiet" }, value ? name : `${name}: ${value === null ? gone
    : "its text was not kept whole"}.`), ...(value ? [make("pre", { tabindex: "0" }, shown(value))] : [])];
  return [...side("Before", before, "there was no such file"), ...side("After", after, "the file was deleted")];
}

function joinChanges(fields, objects) {
  // All changes of one file as the rows of one diff, or null; and its text after the last, or undefined. A line of the file was
  // there at first, or is there now, or both; of one that no change shows, the text is undefined.
  let lines = [];
  let isWhole = false;
  let isJoined = true;
  const fresh = (content) => content.split("\n").map((row) => ({ text: row, was: true, is: true }));
  for (const [number, one] of fields.entries()) {
    const [before, after, diff] = [one.before, one.after, one.diff].map((value) => keptWhole(value, objects));
    if (number === 0 && before !== undefined) lines = fresh(before);
    if (number === 0) isWhole = before !== undefined || (one.kind === "create" && after !== undefined);
    // What the work tree shows as new can have been moved there.
    let fits = !(number === 0 && one.kind === "create" && one.witness === "tree" && !/^(\+\w+)+$/.test(text(one.lines ?? "")));
    if (one.mode !== undefined) continue;
    if (fits && one.kind === "delete") {
      fits = isWhole;
      lines = lines.filter((line) => line.was);
      lines.forEach((line) => { line.is = false; });
    } else if (fits && isWhole && after !== undefined) {
      const now = lines.filter((line) => line.is).map((line) => line.text);
      fits = changeLines(lines, 0, compareLines(now, after.split("\n")), true);
    } else if (fits) {
      fits = diff !== undefined && applyHunks(lines, diff, isWhole);
    }
    if (fits) continue;
    isJoined = false;
    const gone = one.kind === "delete" ? "" : after;
    lines = fresh(gone ?? before ?? "");
    isWhole = gone !== undefined || (before !== undefined && diff !== undefined && applyHunks(lines, diff, true));
  }
  return { net: isJoined ? listRows(lines) : null, after: isWhole ? lines.filter((line) => line.is).map((line) => line.text).join("\n") : undefined };
}

function applyHunks(lines, diff, isWhole) {
  // Whether a unified diff is one of these lines; they are changed by it.
  const rows = diff.split("\n");
  const starts = rows.flatMap((row, at) => (row.startsWith("@@") ? [at] : []));
  return starts.length > 0 && starts.every((start, number) => {
    const [, begin, , size] = /^@@ -\d+(?:,\d+)? \+(\d+)(,(\d+))? @@/.exec(rows[start]) ?? [];
    return begin !== undefined && changeLines(lines, size === "0" ? Number(begin) : begin - 1, rows.slice(start + 1, starts[number + 1]), isWhole);
  });
}

function changeLines(lines, place, rows, isWhole) {
  let at = 0;
  const skip = () => {
    while (at < lines.length && !lines[at].is) at += 1;
    if (at < lines.length) return true;
    if (isWhole || at > SHOWN) return false;
    return Boolean(lines.push({ text: undefined, was: true, is: true }));
  };
  for (let passed = 0; passed < place; passed += 1, at += 1) if (!skip()) return false;
  for (const row of rows) {
    const [sign, content] = [row[0], row.slice(1)];
    if (sign === "+") lines.splice(at++, 0, { text: content, was: false, is: true });
    if (sign !== "-" && sign !== " ") continue;
    if (!skip()) return false;
    const line = lines[at];
    if ((line.text ??= content) !== content) return false;
    line.is = sign === " ";
    if (line.is || line.was) at += 1;
    else lines.splice(at, 1);
  }
  return true;
}

function compareLines(one, two) {
  // The rows of the shortest diff of two texts; of very long ones all between their first and last difference.
  let begin = 0;
  while (begin < Math.min(one.length, two.length) && one[begin] === two[begin]) begin += 1;
  let end = 0;
  while (end < Math.min(one.length, two.length) - begin && one.at(-1 - end) === two.at(-1 - end)) end += 1;
  const [left, right] = [one, two].map((rows) => rows.slice(begin, rows.length - end));
  const wide = right.length + 1;
  const isShort = left.length * right.length < 4000000;
  // How many lines are alike behind two places, at most.
  const alike = new Uint32Array(isShort ? (left.length + 1) * wide : 0);
  for (let a = left.length - 1; isShort && a >= 0; a -= 1) {
    for (let b = right.length - 1; b >= 0; b -= 1) {
      alike[a * wide + b] = left[a] === right[b] ? alike[(a + 1) * wide + b + 1] + 1 : Math.max(alike[(a + 1) * wide + b], alike[a * wide + b + 1]);
    }
  }
  const rows = one.slice(0, begin).map((row) => ` ${row}`);
  let [a, b] = [0, 0];
  while (a < left.length || b < right.length) {
    if (isShort && a < left.length && b < right.length && left[a] === right[b]) [rows[rows.length], a, b] = [` ${left[a]}`, a + 1, b + 1];
    else if (a < left.length && !(b < right.length && alike[(a + 1) * wide + b] < alike[a * wide + b + 1])) rows.push(`-${left[a++]}`);
    else rows.push(`+${right[b++]}`);
  }
  return [...rows, ...one.slice(one.length - end).map((row) => ` ${row}`)];
}

function listRows(lines) {
  // The changed lines, each with three known ones around it.
  const near = new Set();
  const all = [];
  for (let at = 0; at < lines.length;) {
    const block = [];
    while (at < lines.length && !(lines[at].was && lines[at].is)) block.push(lines[at++]);
    const [gone, came] = [block.filter((line) => !line.is), block.filter((line) => line.is)].map((some) => some.map((line) => line.text));
    all.push(...(block.length ? compareLines(gone, came) : [lines[at].text === undefined ? undefined : ` ${lines[at].text}`]));
    if (!block.length) at += 1;
  }
  // Of a file that came or went whole, what stands behind its last end of a line is no line.
  if (all.every((row) => row && row[0] === all[0][0]) && /^[+-]$/.test(all.at(-1) ?? "")) all.pop();
  all.forEach((row, at) => { if (/^[+-]/.test(row ?? "")) for (let next = at - 3; next <= at + 3; next += 1) near.add(next); });
  return all.flatMap((row, at) => (row === undefined || !near.has(at) ? [] : [...(at && (!near.has(at - 1) || all[at - 1] === undefined) ? ["@@"] : []), row]));
}

function showModels(lines) {
  const models = new Map();
  for (const { fields, number } of lines.filter((line) => ["model_call", "turn"].includes(line.fields.event) && isObject(line.fields.tokens))) {
    const name = `${fields.agent === undefined ? "" : `${text(fields.agent)} · `}${text(fields.model ?? "a model nobody named")}`;
    const sum = models.get(name) ?? { numbers: [], tokens: {} };
    sum.numbers.push(number);
    for (const [kind, number] of Object.entries(fields.tokens)) sum.tokens[kind] = (sum.tokens[kind] ?? 0) + Number(number);
    if (fields.cost !== undefined) sum.cost = (sum.cost ?? 0) + Number(fields.cost);
    models.set(name, sum);
  }
  if (!models.size) return [];
  return [make("h2", {}, "Models"), makeTable("tokens as the lines tell them", ["model", "lines", "tokens"], [...models].map(
    ([name, sum]) => make("tr", {}, make("th", { scope: "row" }, shown(name)), make("td", {}, fold(text(sum.numbers.length), {}, () => sum.numbers.flatMap((one) => [make("a", { href: `#line-${one}` }, `line ${one}`), " "]))),
      make("td", {}, shown([...Object.entries(sum.tokens).map(([kind, number]) => `${kind} ${number}`),
        ...(sum.cost === undefined ? [] : [`$${Number(sum.cost.toFixed(6))} as the program reckons`])].join(", "))))))];
}

function showSaid(said) {
  const list = makeList([
    ["note", said.note?.join("; ")],
    ["used", said.used?.join("; ")],
    ["not seen", said.not_seen?.map((name) => (name === "cost" ? "cost as billed" : name)).join(", ")],
    ["replay", said.replay],
    ["objects left out", (said.left_out ?? []).join(", ")],
    ["log's key", said.keys?.join(", ")],
  ]);
  const caveat = "Nothing here is checked: whoever made this page could write anything. Ask for the record, and verify and replay it; "
    + "compare the log's key with one you were told.";
  return list.children.length ? [make("h2", {}, "Said by whoever made this page"),
    make("div", { class: "said" }, make("p", {}, caveat), list)] : [];
}

function showWithheld(lines) {
  const started = lines[0]?.fields ?? {};
  const counts = {};
  for (const { fields } of lines) {
    for (const [rule, number] of Object.entries(isObject(fields.redactions) ? fields.redactions : {})) {
      counts[rule] = (counts[rule] ?? 0) + number;
    }
  }
  const gaps = lines.filter((line) => line.fields.event === "capture_gap").map(({ fields }) =>
    `line ${fields.seq}: ${text(fields.reason ?? "").replaceAll("_", " ")}: ${text(fields.what ?? "")} ${text(fields.message ?? "")}`);
  return [make("h2", {}, "What is not here"), makeList([
    ["captured", isObject(started.capture) ? Object.entries(started.capture).map(([key, mode]) => `${key}: ${text(mode)}`).join(", ") : ""],
    ["masked", Object.entries(counts).map(([rule, number]) => `${rule} ×${number}`).join(", ") || "nothing"],
    ["gaps", gaps.join("\n")],
  ])];
}

function showLines(lines, context) {
  const showOne = (line) => {
    const shownLine = make("pre", { tabindex: "0", id: `line-${line.number}`, class: line.wrong.length ? "wrong" : "" }, shown(line.raw));
    const held = sayHeld([line], context);
    if (held) shownLine.prepend(make("span", { class: "quiet" }, `${held}\n`));
    if (line.wrong.length) shownLine.prepend(make("strong", {}, `✗ line ${line.number}: ${line.wrong.join("; ")}\n`));
    return shownLine;
  };
  const wrong = lines.filter((line) => line.wrong.length).slice(0, 20);
  const rest = lines.filter((line) => !wrong.includes(line));
  const pages = Array.from({ length: Math.ceil(rest.length / LINES_AT_ONCE) }, (_, number) => rest.slice(number * LINES_AT_ONCE, (number + 1) * LINES_AT_ONCE));
  return [...wrong.map(showOne), fold("The record, line by line", { id: "all-lines" }, () => (pages.length < 2 ? rest.map(showOne)
    : pages.map((page) => fold(`lines ${page[0].number} to ${page.at(-1).number}`,
      { "data-from": page[0].number, "data-to": page.at(-1).number }, () => page.map(showOne)))))];
}

function tellMarkdown(story, context) {
  // Recorded text is no Markdown: what would be is escaped, and no text ends its own fence.
  const spell = (value) => { const box = document.createElement("p"); box.append(shown(value)); return box.textContent; };
  const plain = (value) => spell(text(value).replace(/\s+/g, " ")).replace(/[\\`*_[\]<>#|~&!$@]/g, "\\$&");
  const fence = (value, depth) => {
    const marks = "~".repeat((value.match(/~+/g) ?? []).reduce((most, run) => Math.max(most, run.length + 1), 4));
    return `\n${`${marks}\n${spell(value)}\n${marks}`.replace(/^/gm, "  ".repeat(depth + 1))}\n\n`;
  };
  const tell = (part, depth) => {
    const said = ["prompt", "answer", "asked"].includes(part.kind) ? textOf(context.bySeq.get(part.seqs[0])?.fields.text, context.objects) : "";
    const acts = part.acts.length > 1 ? part.acts.map((act) => `${"  ".repeat(depth + 1)}- ${plain(act.what)}${act.result ? `: ${plain(act.result)}` : ""}\n`).join("") : "";
    const title = part.kind === "opening" ? "" : `${"  ".repeat(depth)}- ${["failed", "denied"].includes(part.outcome) ? "✗ " : ""}${plain(part.title)}\n`;
    return title + acts + (said ? fence(said, depth) : "") + part.parts.map((one) => tell(one, depth + 1)).join("");
  };
  const facts = [...story.left, ...story.judged].map((fact) => `- ${plain(fact.text)}\n`).join("");
  return `# ${plain(story.asked.request ?? "A record")}\n\n${plain(story.outcome)}, ${story.calls} calls, ${story.failed} failed or denied. ${plain(story.told.summary)}. `
    + `Tests after the last change: ${plain(TESTED[story.tests] ?? story.tests)}.\n\n${story.done.map((part) => tell(part, 0)).join("")}\n`
    + `${story.changed.map((file) => `- ${plain(`${file.kind} ${file.path}`)}\n`).join("")}\n${facts}`;
}

// --- finding one's way

function makeMap(context, story) {
  const link = (label, element, name = "") => make("li", name ? { class: name } : {}, make("a", { href: `#${element.id}` }, shown(label)));
  const counts = [];
  const keep = (all) => {
    counts.push(all.length);
    return all.slice(0, MAPPED);
  };
  const of = (test) => keep(context.parts.filter(({ part }) => test(part)));
  const isBad = ({ outcome }) => ["failed", "denied"].includes(outcome);
  const isDone = (one) => !isBad(one) && (one.kind === "edit" || one.kind === "change");
  // A group counts as many as it has: each of its failures, each file it edited. The denial of a call is one failure with the call.
  const each = (test) => keep(context.parts.flatMap(({ part, element }) => {
    const isFile = test === isDone;
    const acts = part.acts.length > (isFile ? 0 : 1) ? part.acts.map((act) => ({ ...act, kind: part.kind, title: act.what })) : [part];
    const said = context.bySeq.get(part.seqs[0])?.fields;
    if (said?.event === "approval" && said.refers_to === "call") return [];
    const titles = acts.filter(test).map(({ title }) => title);
    // The end of a path tells files apart where there is little room.
    return (isFile ? [...new Set(titles)].map((path) => path.split("/").at(-1)) : titles).map((title) => [title.slice(0, 60), element]);
  }));
  const lists = [
    ["Chapters", of((part) => part.kind === "prompt" || part.kind === "subagent" || part.kind === "step")
      .map(({ part, element }) => link(part.text.slice(0, 60) || part.title, element, part.kind === "prompt" ? "" : "inner"))],
    ["Failures", each(isBad).map(([label, element]) => link(label, element, "bad"))],
    ["Edits", each(isDone).map(([label, element]) => link(label, element))],
  ].map(([name, items], at) => [`${name} (${items.length < counts[at] ? `the first ${items.length} of ` : ""}${counts[at].toLocaleString("en")})`, items])
    .filter(([, items]) => items.length);
  const search = make("input", { type: "search", id: "search", "aria-label": "Search in this page", placeholder: "Search ( / )" });
  const filter = make("select", { id: "filter", "aria-label": "Filter" },
    ...[["", "everything"], ["edits", "only what changed files"], ["bad", "only what failed"], ["words", "only words"]]
      .map(([value, label]) => make("option", { value }, label)));
  const copy = make("button", { type: "button" }, "Copy as Markdown");
  const result = make("p", { role: "status", class: "quiet" }, "Keys: j k next, p prompt, f failure, e edit, / search");
  copy.addEventListener("click", () => navigator.clipboard?.writeText(tellMarkdown(story, context))
    .then(() => { result.textContent = "Copied."; }, () => { result.textContent = "The browser did not let it be copied."; }));
  filter.addEventListener("change", () => { document.documentElement.dataset.only = filter.value; });
  let last = { query: "", at: -1, found: [] };
  search.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    const query = search.value.toLowerCase();
    const isNext = last.query === query;
    const found = isNext ? last.found : context.lines.filter((line) => query && wordsOf(line, context).includes(query));
    last = { query, at: isNext ? (last.at + 1) % Math.max(1, found.length) : 0, found };
    result.textContent = found.length ? `${last.at + 1} of ${found.length} lines` : "Nothing holds it.";
    if (found.length) go(findElement(context, found[last.at].fields.seq));
  });
  return make("nav", { id: "map", "aria-label": "Map of this record" }, make("p", {}, search), make("p", {}, filter), make("p", {}, copy), result,
    // On a phone the run itself stands above the fold.
    ...lists.map(([name, items]) => make("details", matchMedia("(max-width: 40rem)").matches ? {} : { open: "" }, make("summary", {}, name), make("ul", {}, ...items))));
}

function wordsOf(line, context) {
  // What a reader sees of a line: its bytes, each text in it as it reads without the escapes of JSON, and what its part is called.
  const texts = [line.raw];
  const gather = (value, depth) => {
    if (Array.isArray(value) || (isObject(value) && typeof value.head !== "string")) {
      if (depth < 20) Object.values(value).forEach((one) => gather(one, depth + 1));
      return;
    }
    const kept = textOf(value, context.objects);
    texts.push(kept);
    if (!/^["{[]/.test(kept)) return;
    try {
      gather(JSON.parse(kept), depth + 1);
    } catch {
      texts.push(kept.replace(/\\(["\\n])/g, (_, sign) => (sign === "n" ? "\n" : sign))); // it was cut
    }
  };
  gather(line.fields, 0);
  if (line.fields.event === "started") texts.push(context.objects.get(line.fields.governance_context_hash) ?? "");
  const told = context.told.get(line.fields.seq);
  if (told) texts.push(told.title, ...told.acts.map((act) => `${act.what}\n${act.result}`));
  return texts.join("\n").toLowerCase();
}

function findElement({ elements, bySeq }, seq) {
  // The part that tells a line; for what no part tells the raw line, or the text that the agent was given.
  const line = bySeq.get(seq);
  if (elements.has(seq) || !line) return elements.get(seq);
  return (line.fields.event === "started" && find("whole-text")) || findLine(line.number);
}

function findLine(number) {
  // The raw line of this number, wherever it is folded away.
  for (let at = 0; at < 2 && !find(`line-${number}`); at += 1) {
    find("all-lines")?.fill();
    for (const page of document.querySelectorAll("#all-lines > details")) {
      if (Number(page.dataset.from) <= number && number <= Number(page.dataset.to)) page.fill();
    }
  }
  return find(`line-${number}`);
}

// Who did what at which time, a lane for the agent and for each subagent: only where there are several.
function showLanes(story, context) {
  const lanes = [{ name: "the agent", bars: [] }];
  const walk = (parts, lane) => parts.forEach((part) => {
    const inner = part.kind === "subagent" ? { name: part.text || part.title, bars: [] } : lane;
    if (inner !== lane) lanes.push(inner);
    for (const act of part.acts) {
      const begin = Date.parse(act.at);
      if (!Number.isNaN(begin)) inner.bars.push({ begin, end: begin + (act.duration_ms ?? 0), act, bad: ["failed", "denied"].includes(act.outcome) });
    }
    walk(part.parts, inner);
  });
  walk(story.done, lanes[0]);
  const working = lanes.filter((lane) => lane.bars.length);
  const drawn = working.slice(0, LANES);
  if (drawn.length < 2) return [];
  const bars = drawn.flatMap((lane) => lane.bars);
  const from = Math.min(...bars.map((bar) => bar.begin));
  const span = Math.max(1, Math.max(...bars.map((bar) => bar.end)) - from);
  const space = new DOMParser().parseFromString("<svg></svg>", "text/html").querySelector("svg").namespaceURI;
  const draw = (name, attributes, ...children) => {
    const element = document.createElementNS(space, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  };
  const place = (moment) => ((moment - from) / span) * 700 + 10;
  const picture = draw("svg", { viewBox: `0 0 720 ${drawn.length * 40}`, class: "lanes", role: "group", "aria-label": "Who worked when" });
  drawn.forEach((lane, at) => {
    const top = at * 40;
    picture.append(draw("text", { x: 10, y: top + 13, class: "name" }, shown(lane.name.slice(0, 90)).textContent ?? ""),
      draw("line", { x1: 10, x2: 710, y1: top + 27, y2: top + 27 }));
    for (const { begin, end, act, bad } of lane.bars.slice(0, BARS)) {
      const said = `${bad ? "✗ " : ""}${act.deed} ${act.what.slice(0, 80)}, ${localTime(act.at, CLOCK)}${act.duration_ms ? `, ${spanOf(act.duration_ms)}` : ""}`;
      const bar = draw("rect", { x: place(begin), y: top + 20, width: Math.max(4, place(end) - place(begin)), height: 14, class: bad ? "bad" : "" },
        draw("title", {}, shown(said).textContent ?? ""));
      const target = context.elements.get(act.seqs[0]);
      picture.append(target ? draw("a", { href: `#${target.id}`, "aria-label": shown(said).textContent ?? "" }, bar) : bar);
    }
  });
  const took = `${localTime(new Date(from).toISOString(), CLOCK)} to ${localTime(new Date(from + span).toISOString(), CLOCK)}`;
  const least = [[`the first ${LANES} of them are drawn`, working.length > LANES],
    [`of each at most ${BARS} bars are drawn`, drawn.some((lane) => lane.bars.length > BARS)]].filter(([, holds]) => holds).map(([said]) => `; ${said}`);
  return [make("h2", {}, "Over time"), make("p", { class: "quiet" }, `${working.length} at work, ${took}; each bar leads to what was done${least.join("")}.`),
    make("div", { class: "wide", tabindex: "0", role: "group", "aria-label": "Who worked when" }, picture)];
}

function isFiltered(element) {
  for (let part = element; part; part = part.parentElement) if (getComputedStyle(part).display === "none") return true;
  return false;
}

function go(element) {
  for (let part = element; part; part = part.parentElement?.closest("details")) {
    if (part.tagName !== "DETAILS") continue;
    part.fill?.();
    part.open = true;
  }
  if (isFiltered(element)) {
    find("filter").value = "";
    delete document.documentElement.dataset.only;
  }
  history.replaceState(null, "", `#${element.id}`);
  element.focus({ preventScroll: true });
  element.scrollIntoView({ block: "center" });
}

function watchKeys(context) {
  const { parts } = context;
  const steps = {
    j: [1, () => true], k: [-1, () => true],
    f: [1, (part) => ["failed", "denied"].includes(part.outcome)],
    e: [1, (part) => part.kind === "edit" || part.kind === "change"],
    p: [1, (part) => part.kind === "prompt"],
  };
  let at = -1;
  document.documentElement.dataset.keys = [...Object.keys(steps), "/"].join(" ");
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, select, textarea")) return;
    if (event.key === "/") {
      event.preventDefault();
      find("search")?.focus();
    }
    if (!(event.key in steps) || !parts.length) return;
    const [step, test] = steps[event.key];
    const here = parts.findIndex(({ element }) => element === document.activeElement);
    if (here >= 0) at = here;
    for (let tried = 0; tried < parts.length; tried += 1) {
      at = (at + step + parts.length) % parts.length;
      if (test(parts[at].part) && parts[at].element.id && !isFiltered(parts[at].element)) return void go(parts[at].element);
    }
  });
  const arrive = () => {
    // `#at-7` is the part that tells line 7 of the record, `#line-7` the raw line: any of them, also where it is folded away.
    const [, kind, number] = /^#(at|line)-(\d+)$/.exec(location.hash) ?? [];
    const element = location.hash ? find(location.hash.slice(1))
      ?? (kind === "at" ? findElement(context, Number(number)) : kind && findLine(Number(number))) : null;
    if (element) go(element);
  };
  addEventListener("hashchange", arrive);
  arrive();
}

function show(lines, annexes, objects, images, said, proofs, story) {
  const started = lines[0]?.fields ?? {};
  const closed = lines.find((line) => line.fields.event === "completed")?.fields;
  const all = [...lines, ...annexes];
  const actor = isObject(started.actor) ? started.actor : {};
  const numbered = numberLines(lines, annexes);
  const context = { lines: numbered, bySeq: new Map(numbered.map((line) => [line.fields.seq, line])), objects, images, said, story,
    usual: all.filter((line) => line.held === "log").length * 2 > all.length ? "log" : "seal",
    parts: [], elements: new Map(), told: new Map(), count: 0, began: started.started_at };
  const page = find("page");
  // Of a long record only what is in sight is laid out.
  if (all.length > LINES_AT_ONCE) document.documentElement.dataset.long = "";
  const request = text(started.request_text ?? (started.erased ? "Its request was erased" : "A record without its request"));
  const title = Array.from(request.slice(0, 2 * TITLE)).slice(0, TITLE).join("");
  const took = closed ? Date.parse(closed.completed_at) - Date.parse(started.started_at) : NaN;
  page.append(
    make("h1", {}, shown(title === request ? request : `${title}…`)),
    ...(title === request ? [] : [fold("The whole request", {}, () => [make("p", {}, shown(request))])]),
    makeList([
      ["outcome", closed ? `${text(closed.outcome)}${closed.closed_by in CLOSERS ? ` (${CLOSERS[closed.closed_by]})` : ""}, ${localTime(closed.completed_at, DAY) || text(closed.completed_at)}${took >= 0 ? `, after ${spanOf(took)}` : ""}` : "open when it was exported"],
      ["asked by", [actor.actor_id, actor.model].filter(Boolean).map(text).join(" ")],
      ["part of", story?.asked.work],
      ["begun", localTime(started.started_at, DAY) || started.started_at],
      ["went to", `${text(started.profile_id ?? "")} · ${text(started.action ?? "")}`],
      ["why", story?.asked.why || started.match_reason],
      ["earlier in this turn", story?.before],
      ["calls", story && `${story.calls}${story.failed ? `, ${story.failed} failed or denied` : ""}`],
      ["changed", story && ([namesOf(story.changed.map((one) => one.path)), namesOf([...listNameless(context), ...listUnseen(story, context)].map((fact) => fact.text))].filter(Boolean).join("; ")
        || "no file that a line tells of")],
      ["tests after the last change", story && (TESTED[story.tests] ?? story.tests)],
      ["record", started.invocation_id],
      ["last seal", lines[lines.length - 1]?.fields["~"]],
      ["log", leavesOf(proofs)],
    ]));
  if (story) {
    const facts = (title, items) => (items.length ? [make("h2", {}, title), make("ul", {}, ...items.map((fact) =>
      make("li", {}, shown(fact.text), make("span", { class: "quiet" }, ...(fact.seqs.length ? [" (", ...linkLines(fact.seqs), ")"] : [])))))] : []);
    const done = make("div", { id: "done" }, ...(story.done.length ? story.done.map((part) => showPart(part, context))
      : [make("p", { class: "quiet" }, `Nothing was recorded ${story.outcome === "open" ? "yet" : "between the start and the end"}.`)]));
    page.append(...showRules(all, objects, story.told), ...showLanes(story, context), make("h2", {}, "Done"), done,
      ...facts("Left open", story.left), ...facts("Judged", story.judged), ...showChanges(story, context));
    document.body.insertBefore(makeMap(context, story), page);
    watchKeys(context);
  }
  page.append(...showModels(all), ...showWithheld(all), ...showSaid(said), make("h2", {}, "The record itself"), ...showLines(all, context));
}

// --- one way through

async function main() {
  const root = document.documentElement;
  const source = root.cloneNode(true);
  for (const block of source.querySelectorAll("textarea")) block.textContent = "";
  source.querySelector("script").textContent = "";
  const problems = [];
  if (!(await checkShell(source.outerHTML))) problems.push("the page around the record was changed");
  const split = (id) => readText(id).split("\n").filter((line) => line !== "");
  const lines = await checkLines(split("lines"));
  const annexes = await checkAnnexes(split("annexes"), lines);
  const wrong = [...lines, ...annexes].filter((line) => line.wrong.length);
  root.dataset.lines = wrong.map((line) => line.number).join(",");
  const objects = new Map();
  const images = new Map();
  let said = {};
  let story = null;
  let proofs = [];
  for (const id of ["objects", "proofs", "story", "said"]) {
    const block = readBlock(id);
    if ((await digest(block.body)) !== block.seal) {
      problems.push(`what stands beside the record was changed (${id})`);
      continue;
    }
    if (id === "objects") for (const line of block.body.split("\n").filter(Boolean)) {
      const value = JSON.parse(line);
      if (isObject(value)) images.set(hex(await sha256(unbase64(value.base64))), value.base64);
      else if ((await digest(value)) === hex(await sha256(utf8.encode(value)))) objects.set(await digest(value), value);
    }
    if (id === "said") said = JSON.parse(block.body);
    if (id === "story") story = JSON.parse(block.body);
    if (id === "proofs") {
      const seals = new Set([...lines, ...annexes].map((line) => line.fields["~"]));
      for (const line of block.body.split("\n").filter(Boolean)) {
        const proof = await checkProof(JSON.parse(line), seals);
        if (proof === null) problems.push("a proof does not lead to the log");
        else proofs.push(proof);
      }
    }
  }
  if (proofs.some((proof) => proof.signed === false)) problems.push("the signature of the log is wrong");
  if (!lines.length) problems.push("there is no line");
  const all = [...lines, ...annexes];
  for (const line of all.filter(({ fields }) => fields.event === "approval" && fields.identity === "ssh")) {
    line.approval = await checkApproval(line.fields);
    if (line.approval.holds === false) problems.push(`the signature of the approval in line ${line.number} does not hold`);
  }
  placeLines(lines, annexes, proofs);
  if (story !== null && !wrong.length) problems.push(...checkStory(story, numberLines(lines, annexes)));
  const good = !problems.length && !wrong.length;
  show(lines, annexes, objects, images, said, proofs, story);
  root.dataset.verdict = good ? "checked" : "bad";
  const closed = lines.some((line) => line.fields.event === "completed");
  const tally = (part) => ["log", "seal", "erased"].map((held) => [part.filter((line) => line.held === held).length, held])
    .filter(([number]) => number).map(([number, held]) => `${number} ${TALLIED[held]}`).join(", ");
  const claims = all.filter((line) => line.claim).length;
  find("verdict").textContent = good
    ? `Checked here, in your browser: lines: ${tally(lines)}${annexes.length ? `; annexes: ${tally(annexes)}` : ""}${
      claims ? `; ${claims} of them only claim what they say` : ""}. Not shown: who wrote them${
      closed ? "" : ", that no line was cut off the end"}${proofs.length ? "" : ", that no other record is missing"}${
      lines.some((line) => line.held === "log") ? ", whose key that is" : ", that nobody made them anew"}.`
    : `✗ Changed: ${[...wrong.slice(0, 3).map((line) => `line ${line.number}: ${line.wrong.join("; ")}`), ...problems].join(". ")}.`;
}

addEventListener("beforeprint", () => {
  for (const part of [...document.querySelectorAll("#page details:not(#all-lines, #whole-text, .quiet)")].slice(0, 500)) {
    part.fill?.();
    part.open = true;
  }
});

main().catch((error) => {
  document.documentElement.dataset.verdict = "bad";
  find("verdict").textContent = `✗ This page could not check itself: ${error}.`;
});
