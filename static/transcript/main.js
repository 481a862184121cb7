// @ts-check
// The transcript: starts itself where there is one, and tells the rest of the page what its run does.

import { Connection, readPlaces } from "./connection.js";
import { keepTime, localiseTimes } from "./clocks.js";
import { letFold, openRunning } from "./folding.js";
import { bringLate } from "./late.js";
import { applyAll } from "./ops.js";
import { offerCopies } from "./copying.js";
import { Scrolling } from "./scrolling.js";

/** @param {string} name @param {unknown} detail */
function tell(name, detail) {
  document.dispatchEvent(new CustomEvent(name, { detail }));
}

/** @param {HTMLElement} box */
function start(box) {
  const find = (/** @type {string} */ what) => /** @type {HTMLElement} */ (box.querySelector(what));
  const scrolling = new Scrolling(box, find(".transcript-column"), find("[data-new-below]"));
  const bar = find("[data-connection]");
  // An excerpt has no end to follow, and none to which a run is added.
  let isExcerpt = "excerpt" in box.dataset;
  scrolling.hasEnd = !isExcerpt;
  /** @type {Map<string, number>} the last event of each run that may still change, and of the newest */
  const seen = new Map();
  readPlaces(box.dataset.after ?? "", seen);

  const late = [
    bringLate(box, "[data-question]", async () => (await import("./deciding.js")).letDecide(box)),
    bringLate(box, "[data-retry]", async () => (await import("./retrying.js")).offerRetries(box)),
  ];

  /** @param {Element} node */
  function greet(node) {
    localiseTimes(node);
    openRunning(node);
    for (const notice of late) notice(node);
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
    if (frame.ops?.length && !isExcerpt) {
      applyAll(frame.ops, greet);
      scrolling.notice();
    }
    if (frame.run) seen.set(frame.run, frame.seq);
    if (frame.state) take(frame.state);
  }

  letFold(box);
  offerCopies(box);
  greet(box);
  keepTime(box);
  tell("run-state", JSON.parse(find("#transcript-state").textContent ?? "{}"));
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (target && box.contains(target) && (isExcerpt || new URLSearchParams(location.search).has("run"))) {
    scrolling.isFollowing = false;
    target.scrollIntoView();
  } else scrolling.toEnd();
  if (box.dataset.before) import("./older.js").then(({ loadOlder }) => loadOlder(box, scrolling, greet));
  const connection = new Connection(
    box.dataset.socket ?? "",
    () => [...seen].map(([run, seq]) => `${run}:${seq}`).join(","),
    show,
    (online) => {
      bar.hidden = online;
      tell("connection", { online });
    },
  );

  /** The excerpt has reached the end: what happens there is shown from where it was read.
   * @param {Map<string, number>} places */
  function joinEnd(places) {
    isExcerpt = false;
    scrolling.hasEnd = true;
    box.removeAttribute("data-excerpt");
    seen.clear();
    for (const [run, seq] of places) seen.set(run, seq);
    connection.drop();
    connection.open();
  }
  if (isExcerpt) import("./newer.js").then(({ loadNewer }) => loadNewer(box, greet, joinEnd));
}

for (const box of document.querySelectorAll("[data-transcript]")) {
  if (box instanceof HTMLElement) start(box);
}
