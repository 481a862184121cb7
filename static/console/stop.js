// @ts-check
// Stop: one click, no question, answered at once with "Stopping…". That it has stopped is said only by the server.

import { ApiError, call } from "../transcript/api.js";
import { notify } from "./notices.js";

/** @type {string | null} the run that a Stop on this page would stop */
let active = null;
/** @type {string | null} the one that was told to */
let told = null;
let isStopping = false;
/** When Stop was pressed last: whoever presses it twice does not mean the run that has come next. */
let pressedAt = -Infinity;
const TWICE = 800;
/** @type {Promise<string> | null} what was just sent from here and has not been seen yet: its run */
let coming = null;

/** @param {Promise<string>} run */
export function expectRun(run) {
  coming = run;
  run.catch(() => (coming = null)); // whoever sent it says what went wrong
}

function show() {
  for (const button of document.querySelectorAll("[data-stop-active]")) {
    if (!(button instanceof HTMLButtonElement)) continue;
    button.hidden = !active;
    button.setAttribute("aria-disabled", String(isStopping));
    const words = [button.querySelector("[data-stop-word]"), button.querySelector("[data-stopping-word]")];
    for (const [at, word] of words.entries()) {
      if (word instanceof HTMLElement) word.hidden = (at === 1) !== isStopping;
    }
  }
}

/** @param {string} run @returns {Promise<boolean>} whether it is told, or has ended already */
export async function stopRun(run) {
  try {
    await call("POST", `/v1/runs/${run}/stop`);
  } catch (error) {
    if (!(error instanceof ApiError && error.code === "run_not_active")) {
      notify(error instanceof Error ? error.message : String(error), { isWrong: true });
      return false;
    }
  }
  return true;
}

/** @returns {boolean} whether there was anything to stop */
export function stopActive() {
  const run = active;
  if (!run && coming) {
    coming.then(stopRun, () => {});
    coming = null;
    pressedAt = performance.now();
    return true;
  }
  if (!run || isStopping || performance.now() - pressedAt < TWICE) return Boolean(run);
  pressedAt = performance.now();
  told = run;
  isStopping = true;
  show();
  stopRun(run).then((isTold) => {
    if (isTold || active !== run) return;
    told = null;
    isStopping = false;
    pressedAt = -Infinity;
    show();
  });
  return true;
}

document.addEventListener("run-state", (event) => {
  const state = /** @type {CustomEvent} */ (event).detail;
  active = state.active;
  if (active) coming = null;
  isStopping = Boolean(active) && (told === active || (state.run?.id === active && state.run.status === "stopping"));
  show();
});

document.addEventListener("click", async (event) => {
  if (!(event.target instanceof Element)) return;
  if (event.target.closest("[data-stop-active]")) stopActive();
  const button = event.target.closest("[data-stop]");
  if (!(button instanceof HTMLButtonElement) || button.getAttribute("aria-disabled") === "true") return;
  // Not `disabled`: that takes the focus away, and the list that is fetched again could not give it back.
  button.setAttribute("aria-disabled", "true");
  const isTold = await stopRun(button.dataset.stop ?? "");
  button.setAttribute("aria-disabled", String(isTold));
});
