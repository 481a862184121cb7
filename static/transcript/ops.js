// @ts-check
// Changes of the page, as the server sends them. Every node has an id, so that doing one again does no harm.

import { keepSelection } from "./selection.js";

/** @typedef {string[]} Op */

const BLOCKS = new Set(["P", "UL", "OL", "LI", "BLOCKQUOTE", "DIV", "PRE", "CODE", "TABLE", "TBODY", "TR", "TD"]);
const FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex]";

/** @param {string} html @returns {Element[]} */
function make(html) {
  return [...document.createRange().createContextualFragment(html).children];
}

/** The reader's own doings survive when a node is replaced: what was opened or closed, and where the focus is.
 * @param {Element} old @param {Element} fresh */
function replace(old, fresh) {
  if (old instanceof HTMLDetailsElement && fresh instanceof HTMLDetailsElement && old.dataset.touched) {
    fresh.open = old.open;
    fresh.dataset.touched = "yes";
    fresh.removeAttribute("data-opens");
  }
  const focused = document.activeElement;
  const place = focused && old.contains(focused) ? [old, ...old.querySelectorAll(FOCUSABLE)].indexOf(focused) : -1;
  old.replaceWith(fresh);
  if (place >= 0) {
    const target = [fresh, ...fresh.querySelectorAll(FOCUSABLE)][place];
    if (target instanceof HTMLElement) target.focus({ preventScroll: true });
  }
}

/** Where text goes that is added to a block: to the end of its last paragraph, list entry or line of code.
 * @param {Element} node @returns {Element} */
function lastPlace(node) {
  let place = node;
  while (place.lastElementChild && BLOCKS.has(place.lastElementChild.tagName)) place = place.lastElementChild;
  return place;
}

/** Adds a node at the end. Runs stand as they were asked, and a message that is removed from the queue is told before
 * those in front of it have had their turn.
 * @param {Element | null} parent @param {Element} fresh */
function insert(parent, fresh) {
  const order = Number(fresh.getAttribute("data-order"));
  const next = order && [...(parent?.children ?? [])].find((other) => Number(other.getAttribute("data-order")) > order);
  parent?.insertBefore(fresh, next || null);
}

/** @param {Op} op @returns {Element[]} what is new */
function apply([kind, ...rest]) {
  if (kind === "put") {
    const [parent, id, html] = rest;
    const [fresh] = make(html);
    const old = document.getElementById(id);
    if (old) replace(old, fresh);
    else insert(document.getElementById(parent), fresh);
    return [fresh];
  }
  if (kind === "prepend") {
    const [parent, html] = rest;
    const fresh = make(html).filter((node) => !document.getElementById(node.id));
    document.getElementById(parent)?.prepend(...fresh);
    return fresh;
  }
  const node = document.getElementById(rest[0]);
  if (kind === "text" && node) lastPlace(node).append(rest[1]);
  if (kind === "remove") node?.remove();
  return [];
}

/** @param {Op[]} ops @param {(node: Element) => void} greet called for each node that is new */
export function applyAll(ops, greet) {
  const restoreSelection = keepSelection();
  for (const op of ops) {
    for (const node of apply(op)) greet(node);
  }
  restoreSelection();
}
