"use strict";
// Everything on this page but the first line is made here, from the lines of the record, after they were checked.
// Nothing recorded becomes markup: it is only ever the text of an element.
const SHELL = "@SHELL@";
const GENESIS = "0".repeat(64);
const ENDS = { tool_result: "tool_call", step_completed: "step_started", step_failed: "step_started" };
const BAD = ["error", "denied", "failed", "FAIL", "fail", "abandoned", "deny"];
const OPENING = ["started", "policy_snapshot_ref"];
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
  const shell = source.replace(/script-src 'sha256-[^']*'/, "script-src ''");
  return document.compatMode === "CSS1Compat" && (await digest(shell)) === SHELL;
}

function readBlock(id) {
  const held = find(id)?.textContent ?? "";
  const cut = held.lastIndexOf("\n");
  return { body: held.slice(0, Math.max(cut, 0)), seal: held.slice(cut + 1) };
}

async function checkLines(lines) {
  const checked = [];
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
    else if ((await digest(raw.slice(0, -72))) !== seal[1]) wrong.push("its bytes are not those that were sealed");
    if (!wrong.length) {
      if (fields.prev !== (before ? before["~"] : GENESIS)) wrong.push("it does not follow the line before it");
      if (fields.seq !== (before ? before.seq + 1 : 0)) wrong.push("its number does not follow");
      if (before && fields.invocation_id !== before.invocation_id) wrong.push("it is of another record");
      before = fields;
    }
    checked.push({ number: number + 1, raw, fields, wrong });
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
    if (!wrong.length && fields.prev !== tip["~"]) wrong.push("it does not follow the end of the record");
    checked.push({ number: record.length + number + 1, raw, fields, wrong });
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
    else if (isClaim(line)) line.claim = true;
  }
}

function isClaim({ fields, approval }) {
  return isObject(fields.imported) || (fields.event === "approval" && approval?.holds !== true);
}

// --- what the lines say

function makeTimeline(lines) {
  const entries = [];
  const calls = new Map();
  const steps = new Map();
  for (const line of lines) {
    const { fields } = line;
    const kind = text(fields.event ?? "");
    const open = kind.startsWith("tool_") ? calls : steps;
    const key = open === calls ? text(fields.call_id ?? null) : `${text(fields.step ?? null)} ${fields.ordinal}`;
    if (kind in ENDS && open.has(key)) {
      const entry = entries[open.get(key)];
      open.delete(key);
      entry.lines.push(line);
      entry.status = readStatus(kind, fields);
      const took = Date.parse(momentOf(fields)) - Date.parse(entry.at);
      entry.duration = Number.isInteger(fields.duration_ms) ? fields.duration_ms : took >= 0 ? took : null;
      continue;
    }
    const opens = kind === "tool_call" || kind === "step_started";
    const within = findStep(fields, kind, steps, entries);
    if (opens) open.set(key, entries.length);
    entries.push({
      kind,
      lines: [line],
      name: nameOf(kind, fields),
      status: opens ? "open" : readStatus(kind, fields),
      at: momentOf(fields),
      duration: Number.isInteger(fields.duration_ms) ? fields.duration_ms : null,
      within,
    });
  }
  return entries;
}

function findStep(fields, kind, steps, entries) {
  // The place of the open step that an entry names, or ran in beside other work.
  if (kind.startsWith("step_")) return null;
  const named = fields.step ?? null;
  if (named !== null && typeof named !== "string") return null;
  const places = [...steps.values()].filter((at) => (named !== null
    ? entries[at].lines[0].fields.step === named
    : `${text(entries[at].lines[0].fields.step ?? null)} ${text(entries[at].lines[0].fields.ordinal ?? null)}` === fields.within));
  return (named !== null ? places.at(-1) : places[0]) ?? null;
}

function momentOf(fields) {
  return [fields.at, fields.started_at, fields.completed_at].find((value) => typeof value === "string") ?? "";
}

function readStatus(kind, fields) {
  if (kind === "step_failed" || (["patch_apply", "model_call"].includes(kind) && fields.ok === false)) return "failed";
  if (kind === "policy_violation" || kind === "error") {
    const severity = fields.severity === undefined ? "error" : fields.severity;
    return severity === "error" ? "failed" : severity === null ? "" : text(severity);
  }
  if (kind === "approval") return `${text(fields.decision ?? "")} (${fields.identity === "ssh" ? "signature not checked" : "claimed"})`;
  const told = fields.status ?? fields.decision ?? fields.outcome;
  return told === undefined || told === null ? "" : text(told);
}

const NAMED = {
  tool_call: ["tool"], tool_result: ["tool"], step_started: ["step"], step_completed: ["step"],
  step_failed: ["step", "error_code"], gate_decision: ["gate"], model_call: ["model"], turn: ["model"],
  patch_apply: ["kind", "path"], error: ["error_code"], policy_violation: ["rule_id"], checkpoint: ["label"],
};

function nameOf(kind, fields) {
  const told = (NAMED[kind] ?? []).map((key) => fields[key]).find((value) => value !== undefined && value !== null);
  return told === undefined ? kind : text(told);
}

const UNSIGNED = new Set(["v", "seq", "event", "prev", "at", "by", "dedupe", "signature", "~"]);
const HELD = { log: "log", seal: "sealed only", changed: "CHANGED" };
const UNTOLD = new Set(["v", "seq", "event", "prev", "~", "invocation_id", "at", "call_id", "dedupe", "lines",
  "idempotency_key", "started_at", "completed_at", "after", "after_of"]);

function detailsOf(entry) {
  return entry.lines.flatMap(({ fields }) => Object.entries(fields)
    .filter(([key]) => !UNTOLD.has(key) && !key.endsWith("_hash"))
    .map(([key, value]) => [key, isObject(value) && typeof value.head === "string"
      ? value.head + (value.tail ? `\n… ${value.size} bytes …\n${value.tail}` : "") : text(value)]));
}

function gistOf(entry) {
  const { fields } = entry.lines[0];
  const head = isObject(fields.args) ? text(fields.args.head ?? "") : text(fields.args ?? "");
  const found = /^\{.*?"(?:command|cmd|file_path|path|pattern|query|url|prompt)":\s*"((?:[^"\\]|\\.)*)/.exec(head);
  if (found) try { return JSON.parse(`"${found[1]}"`); } catch { return found[1]; }
  return text(fields.path ?? fields.message ?? fields.ref ?? fields.sha ?? fields.reason_code ?? fields.query ?? head);
}

function spanOf(millis) {
  if (millis === null || Number.isNaN(millis)) return "";
  if (millis < 1000) return `${millis} ms`;
  return millis < 100000 ? `${(millis / 1000).toFixed(1)} s` : `${Math.round(millis / 60000)} min`;
}

// --- showing it

function make(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function shown(value) {
  // What nobody sees, or what would reorder the line, is spelled out.
  const parts = document.createDocumentFragment();
  let plain = "";
  for (const char of text(value)) {
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

function makeList(pairs) {
  return make("dl", {}, ...pairs.filter(([, value]) => value !== undefined && value !== null && value !== "")
    .flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value instanceof Node ? value : shown(value))]));
}

function makeTable(caption, headings, rows) {
  return make("table", {}, make("caption", {}, caption),
    make("thead", {}, make("tr", {}, ...headings.map((name) => make("th", { scope: "col", class: "when" }, name)))),
    make("tbody", {}, ...rows));
}

function showTimeline(entries, begin, whole) {
  return entries.map((entry) => {
    const bad = BAD.includes(entry.status.split(" (")[0]);
    const status = sayApproval(entry.lines[0]) ?? entry.status;
    const details = detailsOf(entry);
    const track = make("span", { class: "track", "aria-hidden": "true" });
    if (entry.duration !== null && whole > 0) {
      const bar = make("span", { class: "bar" });
      bar.style.marginLeft = `${Math.max(0, Math.min(99, (100 * (Date.parse(entry.at) - begin)) / whole))}%`;
      bar.style.width = `${Math.max(0.3, Math.min(100, (100 * entry.duration) / whole))}%`;
      track.append(bar);
    }
    const about = make("td", {}, shown(gistOf(entry).slice(0, 300)));
    if (details.length) {
      about.append(make("details", {}, make("summary", {}, "what was kept"),
        makeList(details.map(([key, value]) => [key, make("pre", { tabindex: "0" }, shown(value))]))));
    }
    const wrong = entry.lines.some((line) => line.wrong.length);
    return make("tr", { class: [wrong ? "wrong" : "", entry.within === null ? "" : "inside"].join(" ").trim() },
      make("td", { class: "when" }, text(entry.lines[0].fields.seq ?? entry.lines[0].number)),
      make("td", { class: "when" }, shown(entry.at.slice(11, 19))),
      make("th", { scope: "row" }, shown(entry.name)),
      make("td", bad ? { class: "ended-bad" } : {}, shown(bad ? `✗ ${status}` : status)),
      make("td", {}, sayHeld(entry.lines)),
      make("td", { class: "when" }, spanOf(entry.duration), track),
      about);
  });
}

function sayHeld(lines) {
  const places = [...new Set(lines.map((line) => HELD[line.held]))];
  return [...places, ...(lines.some((line) => line.claim) ? ["a claim"] : [])].join(", ");
}

function sayApproval({ fields, approval }) {
  if (fields.event !== "approval") return null;
  const decision = text(fields.decision ?? "");
  if (!approval) return `${decision} (claimed; nobody signed it)`;
  if (approval.holds === false) return `${decision} (ITS SIGNATURE DOES NOT HOLD)`;
  if (approval.holds === null) return `${decision} (signature not checked by this browser)`;
  return `${decision} (signed by the key ${approval.name}; whose key that is was not checked)`;
}

function showContext(lines, objects) {
  const response = lines.find((line) => line.fields.event === "retrieval_response")?.fields ?? {};
  const started = lines[0]?.fields ?? {};
  const parts = [make("h2", {}, "Rules in front of the agent")];
  const hits = Array.isArray(response.hits) ? response.hits.filter(isObject) : [];
  if (!hits.length) parts.push(make("p", { class: "quiet" }, "None: there was no charter, or it is not kept."));
  else parts.push(makeTable("in the order they bore on the request", ["rank", "rule", "score", "why"], hits.map((hit) =>
    make("tr", {}, make("td", { class: "when" }, text(hit.rank ?? "")), make("th", { scope: "row" }, shown(hit.uri ?? "")),
      make("td", { class: "when" }, shown(hit.score ?? "")), make("td", {}, shown(isObject(hit.explain)
        ? Object.entries(hit.explain).map(([key, value]) => `${key} ${text(value)}`).join(", ") : ""))))));
  const filtered = Array.isArray(response.filters_applied) ? response.filters_applied.filter(isObject) : [];
  if (filtered.length) {
    parts.push(make("p", {}, "Kept back by policy: ", shown(filtered
      .map((item) => `${text(item.uri ?? "")} (${text(item.action ?? "")} by rule ${text(item.rule_id ?? "")})`).join("; "))));
  }
  const whole = objects.get(started.governance_context_hash);
  if (whole !== undefined) {
    parts.push(make("details", {}, make("summary", {}, "The whole text the agent was given"), make("pre", { tabindex: "0" }, shown(whole))));
  }
  return parts;
}

function showDiffs(lines, objects) {
  const rows = lines.filter((line) => line.fields.event === "patch_apply").map(({ fields }) => {
    const diff = fields.diff ?? fields.after;
    const kept = isObject(diff) ? objects.get(diff.object) ?? text(diff.head ?? "") : text(diff ?? "");
    const part = isObject(diff) && diff.tail ? `${kept}\n… ${diff.size} bytes in all …\n${text(diff.tail)}` : kept;
    return make("details", {}, make("summary", {}, shown(`${text(fields.kind ?? "")} ${text(fields.path ?? "")}`)),
      make("pre", { tabindex: "0" }, shown(part || "Its text was not kept.")));
  });
  return rows.length ? [make("h2", {}, "Changes"), ...rows] : [];
}

function showModels(lines) {
  const models = new Map();
  for (const { fields } of lines.filter((line) => line.fields.event === "model_call")) {
    const sum = models.get(text(fields.model)) ?? { calls: 0, tokens: {} };
    sum.calls += 1;
    for (const [kind, number] of Object.entries(isObject(fields.tokens) ? fields.tokens : {})) {
      sum.tokens[kind] = (sum.tokens[kind] ?? 0) + Number(number);
    }
    models.set(text(fields.model), sum);
  }
  if (!models.size) return [];
  return [make("h2", {}, "Models"), makeTable("calls and tokens", ["model", "calls", "tokens"], [...models].map(
    ([name, sum]) => make("tr", {}, make("th", { scope: "row" }, shown(name)), make("td", {}, text(sum.calls)),
      make("td", {}, shown(Object.entries(sum.tokens).map(([kind, number]) => `${kind} ${number}`).join(", "))))))];
}

function showSaid(said) {
  const list = makeList([
    ["note", said.note?.join("\n")],
    ["not seen", said.not_seen?.join(", ")],
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
    `line ${fields.seq}: ${text(fields.reason)} ${text(fields.what)} ${text(fields.message ?? "")}`);
  return [make("h2", {}, "What is not here"), makeList([
    ["captured", isObject(started.capture) ? Object.entries(started.capture).map(([key, mode]) => `${key}: ${text(mode)}`).join(", ") : ""],
    ["masked", Object.entries(counts).map(([rule, number]) => `${rule} ×${number}`).join(", ") || "nothing"],
    ["gaps", gaps.join("\n")],
  ])];
}

function showLines(lines) {
  const wrong = lines.some((line) => line.wrong.length);
  return [make("details", wrong ? { open: "" } : {}, make("summary", {}, "The record, line by line"), ...lines.map((line) => {
    const shownLine = make("pre", { tabindex: "0", id: `line-${line.number}`, class: line.wrong.length ? "wrong" : "" }, shown(line.raw));
    shownLine.prepend(make("span", { class: "quiet" }, `${sayHeld([line])}\n`));
    if (line.wrong.length) shownLine.prepend(make("strong", {}, `✗ line ${line.number}: ${line.wrong.join("; ")}\n`));
    return shownLine;
  }))];
}

function show(lines, annexes, objects, said, proofs) {
  const started = lines[0]?.fields ?? {};
  const closed = lines.find((line) => line.fields.event === "completed")?.fields;
  const all = [...lines, ...annexes];
  const isOpening = ({ fields }) => OPENING.includes(fields.event) || fields.request_id === "context";
  const entries = makeTimeline(all).filter((entry) => !isOpening(entry.lines[0]) || entry.lines[0].wrong.length);
  const times = all.map((line) => Date.parse(momentOf(line.fields))).filter((moment) => !Number.isNaN(moment));
  const begin = Math.min(...times);
  const whole = Math.max(...times) - begin;
  const actor = isObject(started.actor) ? started.actor : {};
  find("page").append(
    make("h1", {}, shown(started.request_text ?? "A record without its request")),
    makeList([
      ["outcome", closed ? `${text(closed.outcome)} at ${text(closed.completed_at)}${whole >= 0 ? `, after ${spanOf(whole)}` : ""}` : "open when it was exported"],
      ["profile", `${text(started.profile_id ?? "")} · ${text(started.action ?? "")}`],
      ["why", started.match_reason],
      ["asked by", [actor.actor_id, actor.model].filter(Boolean).map(text).join(" ")],
      ["begun", started.started_at],
      ["record", started.invocation_id],
      ["last seal", lines[lines.length - 1]?.fields["~"]],
      ["log", proofs.map((proof) => `${proof.kind}: leaf of ${proof.origin}, ${proof.size} leaves, ${
        proof.signed === true ? "signed by the key in this page" : proof.signed === null ? "signature not checked by this browser" : "SIGNATURE WRONG"}`).join("\n")],
    ]),
    make("h2", {}, "Timeline"),
    makeTable("what happened, in order; a bar is a duration; held by: the signed log, or its seal alone, which whoever wrote the file could make anew",
      ["line", "time (UTC)", "what", "ended", "held by", "took", "about"],
      showTimeline(entries, begin, whole)),
    ...showContext(lines, objects), ...showDiffs(lines, objects), ...showModels(lines), ...showWithheld(all), ...showSaid(said),
    make("h2", {}, "The record itself"), ...showLines(all));
}

// --- one way through

async function main() {
  const root = document.documentElement;
  const source = root.cloneNode(true);
  for (const id of ["lines", "annexes", "objects", "proofs", "said"]) {
    const block = source.querySelector(`#${id}`);
    if (block) block.textContent = "";
  }
  source.querySelector("script").textContent = "";
  const problems = [];
  if (!(await checkShell(source.outerHTML))) problems.push("the page around the record was changed");
  const split = (id) => (find(id)?.textContent ?? "").split("\n").filter((line) => line !== "");
  const lines = await checkLines(split("lines"));
  const annexes = await checkAnnexes(split("annexes"), lines);
  const wrong = [...lines, ...annexes].filter((line) => line.wrong.length);
  root.dataset.lines = wrong.map((line) => line.number).join(",");
  const objects = new Map();
  let said = {};
  let proofs = [];
  for (const id of ["objects", "proofs", "said"]) {
    const block = readBlock(id);
    if ((await digest(block.body)) !== block.seal) {
      problems.push(`what stands beside the record was changed (${id})`);
      continue;
    }
    if (id === "objects") for (const line of block.body.split("\n").filter(Boolean)) {
      const value = JSON.parse(line);
      if ((await digest(value)) === hex(await sha256(utf8.encode(value)))) objects.set(await digest(value), value);
    }
    if (id === "said") said = JSON.parse(block.body);
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
  const good = !problems.length && !wrong.length;
  show(lines, annexes, objects, said, proofs);
  root.dataset.verdict = good ? "checked" : "bad";
  const closed = lines.some((line) => line.fields.event === "completed");
  const tally = (part) => ["log", "seal"].map((held) => [part.filter((line) => line.held === held).length, held])
    .filter(([number]) => number).map(([number, held]) => `${number} ${held === "log" ? "in a log signed by the key in this page" : "sealed only"}`).join(", ");
  const claims = all.filter((line) => line.claim).length;
  find("verdict").textContent = good
    ? `Checked here, in your browser: lines: ${tally(lines)}${annexes.length ? `; annexes: ${tally(annexes)}` : ""}${
      claims ? `; ${claims} of them only claim what they say` : ""}. Not shown: who wrote them${
      closed ? "" : ", that no line was cut off the end"}${proofs.length ? "" : ", that no other record is missing"}${
      lines.some((line) => line.held === "log") ? ", whose key that is" : ", that nobody made them anew"}.`
    : `✗ Changed: ${[...wrong.slice(0, 3).map((line) => `line ${line.number}: ${line.wrong.join("; ")}`), ...problems].join(". ")}.`;
}

addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details")) part.open = true;
});

main().catch((error) => {
  document.documentElement.dataset.verdict = "bad";
  find("verdict").textContent = `✗ This page could not check itself: ${error}.`;
});
