// @ts-check
// Around the transcript: inspector, status word, title of the tab, what is announced, and the seconds that pass.

import { asWords } from "../transcript/clocks.js";
import { announce } from "./notices.js";

const stage = document.querySelector("[data-stage]");
const SIGNS = { running: "●", queued: "○", stopping: "◌" };

/** @type {string} */
let before = "";
let shownAt = 0;

/** @param {string} id @param {string | undefined} html */
function swap(id, html) {
  const old = document.getElementById(id);
  if (!old || html === undefined) return;
  const made = document.createRange().createContextualFragment(html).firstElementChild;
  if (!made || old.isEqualNode(made)) return;
  const hadFocus = old.contains(document.activeElement);
  old.replaceWith(made);
  const link = made.querySelector("a");
  if (hadFocus && link) link.focus({ preventScroll: true });
}

/** @param {any} run @param {HTMLElement} stage @param {number} approvals */
function showTitle(run, stage, approvals) {
  const title = stage.dataset.title ?? "";
  const status = run?.status ?? "idle";
  if (status === "requires_approval") {
    document.title = `(${approvals || 1}) ${stage.dataset.titleWaiting} · ${title}`;
  } else if (status in SIGNS) {
    const word = run.word.charAt(0).toUpperCase() + run.word.slice(1);
    document.title = `${SIGNS[/** @type {keyof typeof SIGNS} */ (status)]} ${word} · ${title}`;
  } else {
    document.title = `${title} · Agentsite`;
  }
}

/** @param {any} run @param {HTMLElement} stage */
function tell(run, stage) {
  const now = run ? `${run.id} ${run.status}` : "";
  if (now === before) return;
  const isFirst = before === "";
  before = now || "none";
  const sentence = run ? stage.getAttribute(`data-announce-${run.status}`) : null;
  // What was over before somebody came is no news.
  if (sentence && !(isFirst && !run.is_active)) announce(sentence.replace("%s", stage.dataset.agent ?? ""));
}

/** @param {any} state */
function show(state) {
  if (!(stage instanceof HTMLElement)) return;
  const run = state.run;
  swap("facts", state.inspector);
  shownAt = performance.now();
  for (const status of stage.querySelectorAll("[data-status-word]")) {
    if (!(status instanceof HTMLElement)) continue;
    status.dataset.status = run?.status ?? "idle";
    const word = status.querySelector("[data-word]");
    if (word) word.textContent = run ? run.word.charAt(0).toUpperCase() + run.word.slice(1) : "";
  }
  showTitle(run, stage, state.pending_approvals);
  tell(run, stage);
}

function tick() {
  const clock = document.querySelector("[data-ticking]");
  if (!(clock instanceof HTMLElement)) return;
  const seconds = Number(clock.dataset.elapsed) + (performance.now() - shownAt) / 1000;
  clock.textContent = asWords(seconds);
  const meter = clock.closest("dd")?.querySelector("meter");
  if (meter) meter.value = seconds;
}

if (stage instanceof HTMLElement) {
  document.addEventListener("run-state", (event) => {
    show(/** @type {CustomEvent} */ (event).detail);
    tick();
  });
  document.addEventListener("title-changed", (event) => {
    const title = /** @type {CustomEvent} */ (event).detail;
    document.title = document.title.replace(stage.dataset.title ?? "", () => title);
    stage.dataset.title = title;
    for (const shown of stage.querySelectorAll("[data-shown-title]")) shown.textContent = title;
  });
  window.setInterval(tick, 1000);
  tick();
}
