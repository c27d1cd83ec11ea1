"use strict";
// Asks whether what is shown has changed, and puts the new content in the place of the old. Hands the keys of a record's page to it.
// It is the viewer's only script.
const PAUSE = 1500;
// Beside this script, wherever the viewer has its pages.
const STATE = new URL("state", document.currentScript.src).href;

async function ask() {
  const main = document.querySelector("main");
  const part = document.querySelector("#live");
  const typing = document.activeElement?.contentDocument?.activeElement ?? document.activeElement;
  const [frame, next] = main.querySelectorAll("iframe");
  if (document.hidden || !part || next || typing?.closest("form, input, select")) return;
  const of = part.dataset.of ? `?of=${encodeURIComponent(part.dataset.of)}` : "";
  const state = await (await fetch(`${STATE}${of}`)).text();
  if (state === part.dataset.state) return;
  const page = new DOMParser().parseFromString(await (await fetch(location.href)).text(), "text/html");
  const fresh = page.querySelector("#live");
  if (!fresh) return;
  const folds = [...part.querySelectorAll("details")].map((box) => box.open);
  part.replaceWith(document.adoptNode(fresh));
  fresh.querySelectorAll("details").forEach((box, at) => { box.open = folds[at] ?? box.open; });
  if (frame) await reload(frame);
}

function* nameFolds(page) {
  // Each fold by the part it is in and its place there: both stay as they are while a record grows.
  const counts = new Map();
  for (const box of page.querySelectorAll("#page details, #map details")) {
    const owner = box.closest("[id]").id;
    counts.set(owner, (counts.get(owner) ?? 0) + 1);
    yield [`${owner} ${counts.get(owner)}`, box];
  }
}

async function reload(frame) {
  // A page makes all of itself anew: unseen in a frame over the old one, which it takes the place of when it is ready. Its reader keeps
  // the place, the folds, what was sought and the filter.
  const fresh = frame.cloneNode();
  Object.assign(fresh.style, { position: "absolute", visibility: "hidden", width: `${frame.offsetWidth}px`, height: `${frame.offsetHeight}px` });
  const loaded = new Promise((done) => { fresh.addEventListener("load", done, { once: true }); });
  frame.before(fresh);
  await loaded;
  const page = fresh.contentDocument;
  for (let tries = 0; tries < 200 && !page.documentElement.dataset.verdict; tries += 1) await new Promise((done) => { setTimeout(done, 20); });
  const old = frame.contentDocument;
  const folds = new Map([...nameFolds(old)].map(([name, box]) => [name, box.open]));
  const [top, focused] = [frame.contentWindow.scrollY, old.activeElement?.id];
  const isActive = document.activeElement === frame;
  if (page.getElementById("filter")) {
    // What a fold holds is made when it is opened, so the folds in it come next.
    for (let before = -1, boxes = []; boxes.length > before;) {
      before = boxes.length;
      boxes = [...nameFolds(page)];
      for (const [name, box] of boxes.filter(([one]) => folds.has(one))) {
        if (folds.get(name)) box.fill?.();
        box.open = folds.get(name);
      }
    }
    for (const id of ["search", "filter"]) page.getElementById(id).value = old.getElementById(id)?.value ?? "";
    page.getElementById("filter").dispatchEvent(new Event("change"));
  }
  fresh.contentWindow.scrollTo(0, top);
  fresh.removeAttribute("style");
  frame.remove();
  if (isActive) fresh.contentWindow.focus();
  if (focused) page.getElementById(focused)?.focus({ preventScroll: true });
  fresh.contentWindow.scrollTo(0, top);
}

addEventListener("keydown", (event) => {
  const page = [...document.querySelectorAll("iframe")].at(-1)?.contentWindow;
  const isOther = event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, select, textarea");
  const keys = page?.document.documentElement.dataset.keys?.split(" ") ?? [];
  if (isOther || !keys.includes(event.key)) return;
  event.preventDefault();
  page.focus();
  page.dispatchEvent(new page.KeyboardEvent("keydown", { key: event.key, cancelable: true }));
});
setInterval(() => ask().catch(() => {}), PAUSE);
