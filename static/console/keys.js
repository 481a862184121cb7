// @ts-check
// Shortcuts. All of them can be switched off in the preferences; Enter belongs to the fields and stays.

import { openSearch } from "./dialogs.js";
import { closeAll } from "./panels.js";
import { stopActive } from "./stop.js";

const isMac = /Mac|iPhone|iPad/.test(navigator.platform);
const isOn = document.documentElement.dataset.shortcuts !== "off";
const help = document.getElementById("keys");

/** @param {EventTarget | null} target */
function isField(target) {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

function showHelp() {
  if (help instanceof HTMLDialogElement && !help.open) help.showModal();
}

for (const key of document.querySelectorAll("[data-keys]")) {
  if (!(key instanceof HTMLElement) || !isMac) continue;
  const symbols = { mod: "⌘", shift: "⇧", Enter: "↩" };
  const parts = (key.dataset.keys ?? "").split(" ");
  key.textContent = parts.map((part) => symbols[/** @type {keyof typeof symbols} */ (part)] ?? part).join("");
}

document.addEventListener("click", (event) => {
  if (event.target instanceof Element && event.target.closest("[data-open-keys]")) showHelp();
});

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.isComposing) return;
  // To close what lies over the page is no shortcut but what the key is for.
  if (event.key === "Escape" && closeAll()) {
    event.preventDefault();
    return;
  }
  if (!isOn || document.querySelector("dialog[open]")) return;
  const hasMod = isMac ? event.metaKey : event.ctrlKey;
  if (event.key === "Escape") {
    const { target } = event;
    // Whoever writes in the form of a question wants to leave the field, and not to deny everything for good.
    if (isField(target) && target instanceof HTMLElement && target.closest("[data-question]")) target.blur();
    else if (event.repeat || stopActive()) event.preventDefault();
  } else if (hasMod && !event.shiftKey && !event.altKey && event.key.toLowerCase() === "k") {
    event.preventDefault();
    openSearch();
  } else if (hasMod && event.shiftKey && event.key.toLowerCase() === "o") {
    event.preventDefault();
    location.assign("/");
  } else if (event.key === "?" && !isField(event.target)) {
    event.preventDefault();
    showHelp();
  }
});
