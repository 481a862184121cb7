// @ts-check
// Older messages come when the reader scrolls up to them, and what is being read stays where it is.

import { applyAll } from "./ops.js";

const AHEAD = 800; // pixels before the beginning is reached

/** @param {HTMLElement} box @param {import("./scrolling.js").Scrolling} scrolling @param {(node: Element) => void} greet */
export function loadOlder(box, scrolling, greet) {
  const loading = /** @type {HTMLElement} */ (box.querySelector("[data-loading]"));
  const failed = /** @type {HTMLElement} */ (box.querySelector("[data-older-failed]"));
  let isBusy = false;

  async function load() {
    const before = box.dataset.before;
    if (!before || isBusy) return;
    isBusy = true;
    loading.hidden = false;
    failed.hidden = true;
    try {
      const response = await fetch(`${box.dataset.older}?before=${encodeURIComponent(before)}`);
      if (!response.ok) throw new Error(response.statusText);
      const answer = await response.json();
      const anchor = document.getElementById("runs")?.firstElementChild ?? null;
      const last = anchor?.querySelector(".items")?.firstElementChild ?? anchor;
      scrolling.keep(before.includes(":") ? last : anchor, () => {
        applyAll(answer.ops, greet);
        loading.hidden = true;
      });
      box.dataset.before = answer.before;
    } catch {
      failed.hidden = false;
      loading.hidden = true;
      return;
    } finally {
      isBusy = false;
    }
    look();
  }

  function look() {
    if (box.scrollTop < AHEAD && failed.hidden) load();
  }

  box.addEventListener("scroll", look, { passive: true });
  box.querySelector("[data-load-older]")?.addEventListener("click", load);
  look();
}
