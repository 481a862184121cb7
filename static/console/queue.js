// @ts-check
// Messages that wait behind the run: edit, remove, or send now, which is to stop the run; the first in line follows.

import { ApiError, call } from "../transcript/api.js";
import { grow, isSending } from "./field.js";
import { notify } from "./notices.js";
import { stopRun } from "./stop.js";

/** @type {string | null} the newest list, which waits until an edit is done */
let waiting = null;

function queue() {
  return document.getElementById("queue");
}

function composer() {
  return /** @type {HTMLTextAreaElement | null} */ (document.querySelector("[data-composer] textarea"));
}

/** @param {string} html */
function show(html) {
  const old = queue();
  const made = document.createRange().createContextualFragment(html).firstElementChild;
  if (!old || !made) return;
  const editing = old.querySelector("form");
  const run = editing?.closest("li")?.dataset.run;
  if (editing && run && made.querySelector(`[data-run="${run}"]`)) {
    waiting = html;
    return;
  }
  if (editing) handOver(/** @type {HTMLFormElement} */ (editing));
  if (!old.isEqualNode(made)) old.replaceWith(made);
}

/** The message has started while somebody edited it: their words go to the composer instead of being lost.
 * @param {HTMLFormElement} form */
function handOver(form) {
  form.dataset.isOver = "yes";
  const input = /** @type {HTMLTextAreaElement} */ (form.elements.namedItem("text"));
  const field = composer();
  notify(queue()?.dataset.gone ?? "");
  if (!field || input.value === input.defaultValue) return;
  field.value = field.value ? `${field.value}\n${input.value}` : input.value;
  field.dispatchEvent(new Event("input", { bubbles: true }));
  field.focus();
}

/** @param {unknown} error */
function complain(error) {
  const isGone = error instanceof ApiError && ["run_started", "run_not_active"].includes(error.code);
  notify(isGone ? queue()?.dataset.gone ?? "" : error instanceof Error ? error.message : String(error), { isWrong: !isGone });
}

/** @param {HTMLElement} chip */
function edit(chip) {
  const text = chip.querySelector(".chip-text");
  const button = chip.querySelector("[data-edit-queued]");
  if (!(text instanceof HTMLElement) || !button || chip.querySelector("form")) return;
  const form = document.createElement("form");
  const input = document.createElement("textarea"); // a message may have several lines
  input.name = "text";
  input.className = "input";
  input.rows = 1;
  input.maxLength = 1000000;
  input.defaultValue = text.textContent ?? "";
  input.setAttribute("aria-label", button.getAttribute("aria-label") ?? "");
  form.append(input);
  text.hidden = true;
  text.after(form);
  grow(input);
  input.focus();

  let isDone = false;
  /** @param {boolean} isKept */
  const finish = async (isKept) => {
    if (isDone || form.dataset.isOver) return;
    isDone = true;
    const wanted = input.value.trim();
    form.remove();
    text.hidden = false;
    if (isKept && wanted && wanted !== input.defaultValue.trim()) {
      text.textContent = wanted;
      try {
        await call("PATCH", `/v1/runs/${chip.dataset.run}`, { input: wanted });
      } catch (error) {
        text.textContent = input.defaultValue;
        complain(error);
      }
    }
    if (waiting !== null) show(waiting);
    waiting = null;
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    finish(true);
    composer()?.focus();
  });
  input.addEventListener("input", () => grow(input));
  input.addEventListener("keydown", (event) => {
    if (isSending(event)) {
      event.preventDefault();
      form.requestSubmit();
    }
    if (event.key !== "Escape") return;
    event.preventDefault();
    finish(false);
    composer()?.focus();
  });
  input.addEventListener("blur", () => finish(true));
}

/** @returns {boolean} whether there was one that can be edited here */
export function editLast() {
  const last = queue()?.querySelector("li:last-child [data-edit-queued]")?.closest("li");
  if (last) edit(last);
  return Boolean(last);
}

document.addEventListener("run-state", (event) => {
  const html = /** @type {CustomEvent} */ (event).detail.queue;
  if (html !== undefined) show(html);
});

document.addEventListener("click", async (event) => {
  if (!(event.target instanceof Element)) return;
  const chip = event.target.closest("#queue [data-run]");
  if (!(chip instanceof HTMLElement)) return;
  const now = event.target.closest("[data-send-now]");
  if (event.target.closest("[data-edit-queued]")) {
    edit(chip);
  } else if (event.target.closest("[data-remove-queued]")) {
    chip.hidden = true;
    try {
      await call("DELETE", `/v1/runs/${chip.dataset.run}`);
    } catch (error) {
      chip.hidden = false;
      complain(error);
    }
  } else if (now instanceof HTMLButtonElement) {
    now.disabled = true;
    now.disabled = await stopRun(now.dataset.sendNow ?? "");
  }
});
