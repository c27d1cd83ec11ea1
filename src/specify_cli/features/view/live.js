"use strict";
// Asks whether what is shown has changed, and puts the new content in the place of the old. Hands the keys of a record's page to it.
// It is the viewer's only script.
const PAUSE = 1500;
// Beside this script, wherever the viewer has its pages.
const STATE = new URL("state", document.currentScript.src).href;

async function ask() {
  const main = document.querySelector("main");
  const part = document.querySelector("#live");
  if (document.hidden || !part || document.activeElement?.closest("form")) return;
  const of = part.dataset.of ? `?of=${encodeURIComponent(part.dataset.of)}` : "";
  const state = await (await fetch(`${STATE}${of}`)).text();
  if (state === part.dataset.state) return;
  const page = new DOMParser().parseFromString(await (await fetch(location.href)).text(), "text/html");
  const fresh = page.querySelector("#live");
  if (!fresh) return;
  part.replaceWith(document.adoptNode(fresh));
  for (const frame of main.querySelectorAll("iframe")) frame.contentWindow.location.reload();
}

addEventListener("keydown", (event) => {
  const page = document.querySelector("iframe")?.contentWindow;
  const isOther = event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, select, textarea");
  if (!page || isOther || !"jkpfe/".includes(event.key)) return;
  event.preventDefault();
  page.focus();
  page.dispatchEvent(new page.KeyboardEvent("keydown", { key: event.key, cancelable: true }));
});
setInterval(() => ask().catch(() => {}), PAUSE);
