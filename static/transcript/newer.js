// @ts-check
// A permanent link may lead to an earlier part. What comes after it comes when the reader scrolls down to it, until the
// conversation's end is reached and the page is one like any other.

import { readPlaces } from "./connection.js";
import { applyAll } from "./ops.js";

const AHEAD = 800; // pixels before the end of the part is reached

/**
 * @param {HTMLElement} box
 * @param {(node: Element) => void} greet
 * @param {(places: Map<string, number>) => void} onEnd the end is reached, with so much of each run that may still change
 */
export function loadNewer(box, greet, onEnd) {
  const part = /** @type {HTMLElement} */ (box.querySelector("[data-newer-part]"));
  const failed = /** @type {HTMLElement} */ (part.querySelector("[data-newer-failed]"));
  const leave = new AbortController();
  /** @type {Map<string, number>} */
  const places = new Map();
  let isBusy = false;

  async function load() {
    if (isBusy) return;
    isBusy = true;
    failed.hidden = true;
    try {
      const response = await fetch(`${box.dataset.newer}?beyond=${encodeURIComponent(box.dataset.beyond ?? "")}`);
      if (!response.ok) throw new Error(response.statusText);
      const answer = await response.json();
      applyAll(answer.ops, greet);
      readPlaces(answer.after, places);
      box.dataset.beyond = answer.beyond;
    } catch {
      failed.hidden = false;
      return;
    } finally {
      isBusy = false;
    }
    if (box.dataset.beyond) return look();
    leave.abort();
    part.remove();
    onEnd(places);
  }

  function look() {
    if (box.scrollHeight - box.scrollTop - box.clientHeight < AHEAD && failed.hidden) load();
  }

  box.addEventListener("scroll", look, { passive: true, signal: leave.signal });
  part.querySelector("[data-load-newer]")?.addEventListener("click", load);
  // Who sends something, or wants to see what is new, is far from it here.
  const toEnd = () => part.querySelector("a")?.click();
  document.addEventListener("scroll-to-end", toEnd, { signal: leave.signal });
  look();
}
