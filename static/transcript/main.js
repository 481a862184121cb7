// @ts-check
// The transcript: starts itself where there is one, and tells the rest of the page what its run does.

import { Connection } from "./connection.js";
import { keepTime, localiseTimes } from "./clocks.js";
import { letDecide } from "./deciding.js";
import { letFold, openRunning } from "./folding.js";
import { applyAll } from "./ops.js";
import { offerCopies } from "./copying.js";
import { offerRetries } from "./retrying.js";
import { Scrolling } from "./scrolling.js";

/** @param {Element} node */
function greet(node) {
  localiseTimes(node);
  openRunning(node);
}

/** @param {string} name @param {unknown} detail */
function tell(name, detail) {
  document.dispatchEvent(new CustomEvent(name, { detail }));
}

/** @param {HTMLElement} box */
function start(box) {
  const find = (/** @type {string} */ what) => /** @type {HTMLElement} */ (box.querySelector(what));
  const scrolling = new Scrolling(box, find(".transcript-column"), find("[data-new-below]"));
  const bar = find("[data-connection]");
  // An excerpt has no end to which a new run could be added.
  const isExcerpt = "excerpt" in box.dataset;
  /** @type {Map<string, number>} the last event of each run that may still change, and of the newest */
  const seen = new Map();
  for (const place of (box.dataset.after ?? "").split(",").filter(Boolean)) {
    const [run, seq] = place.split(":");
    seen.set(run, Number(seq));
  }

  /** @param {any} state */
  function take(state) {
    const open = new Set([state.active, state.run?.id, ...state.queued.map((/** @type {any} */ run) => run.id)]);
    const newest = [...seen.keys()].at(-1);
    for (const run of seen.keys()) {
      if (!open.has(run) && run !== newest) seen.delete(run);
    }
    tell("run-state", state);
  }

  /** @param {any} frame */
  function show(frame) {
    if (frame.reload) return location.reload();
    if (frame.run && frame.seq <= (seen.get(frame.run) ?? 0)) return;
    if (frame.ops?.length) {
      applyAll(isExcerpt ? frame.ops.filter((/** @type {string[]} */ op) => op[1] !== "runs") : frame.ops, greet);
      scrolling.notice();
    }
    if (frame.run) seen.set(frame.run, frame.seq);
    if (frame.state) take(frame.state);
  }

  letFold(box);
  letDecide(box);
  offerCopies(box);
  offerRetries(box);
  localiseTimes(box);
  keepTime(box);
  tell("run-state", JSON.parse(find("#transcript-state").textContent ?? "{}"));
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (target && box.contains(target) && (isExcerpt || new URLSearchParams(location.search).has("run"))) {
    scrolling.isFollowing = false;
    target.scrollIntoView();
  } else scrolling.toEnd();
  // Most conversations are short: the script for older messages comes where there are any.
  if (box.dataset.before) import("./older.js").then(({ loadOlder }) => loadOlder(box, scrolling, greet));
  new Connection(
    box.dataset.socket ?? "",
    () => [...seen].map(([run, seq]) => `${run}:${seq}`).join(","),
    show,
    (online) => {
      bar.hidden = online;
      tell("connection", { online });
    },
  );
}

for (const box of document.querySelectorAll("[data-transcript]")) {
  if (box instanceof HTMLElement) start(box);
}
