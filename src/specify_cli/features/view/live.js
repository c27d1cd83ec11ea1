"use strict";
// Asks whether what is shown has changed, and puts the new content in the place of the old. It is the viewer's only script.
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

setInterval(() => ask().catch(() => {}), PAUSE);
