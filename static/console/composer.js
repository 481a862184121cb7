// @ts-check
// Where one writes. While a run is active what is typed can be queued, and Stop stands where Send was.

import { ApiError, call } from "../transcript/api.js";
import { forgetSent, keepDraft, nameDraft, readDraft } from "./drafts.js";
import { grow, isSending, newKey } from "./field.js";
import { isFocusLost } from "./focus.js";
import { editLast } from "./queue.js";
import { expectRun } from "./stop.js";

const form = document.querySelector("form[data-composer]");

if (form instanceof HTMLFormElement) {
  const field = /** @type {HTMLTextAreaElement} */ (form.querySelector("textarea"));
  const send = /** @type {HTMLButtonElement} */ (form.querySelector("[data-send]"));
  const queue = /** @type {HTMLButtonElement} */ (form.querySelector("[data-queue]"));
  const problem = document.querySelector("[data-composer-error]");
  const conversation = form.dataset.conversation ?? "";
  const canHover = matchMedia("(hover: hover)").matches;
  const areShortcutsOn = document.documentElement.dataset.shortcuts !== "off";

  let state = { active: null, run: null };
  let isSendingNow = false;
  // The same text that is sent again because no answer came keeps its key: it starts one run.
  let attempt = { text: "", key: "" };

  /** @param {string} text */
  const complain = (text) => {
    if (!(problem instanceof HTMLElement)) return;
    problem.textContent = text;
    problem.hidden = !text;
  };

  const show = () => {
    const isActive = Boolean(state.active);
    const isWaiting = /** @type {any} */ (state.run)?.status === "requires_approval";
    const hasText = field.value.trim() !== "";
    form.dataset.state = isWaiting ? "waiting" : isActive ? "active" : "idle";
    send.hidden = isActive;
    send.disabled = !hasText || isSendingNow;
    queue.hidden = !isActive || isWaiting || !hasText;
    queue.disabled = isSendingNow;
    const word = isWaiting ? "placeholderWaiting" : isActive ? "placeholderActive" : "placeholder";
    field.placeholder = form.dataset[word] ?? "";
    // The buttons beside it have changed, and with them its width.
    grow(field);
  };

  const submit = async () => {
    const text = field.value;
    const isWaiting = form.dataset.state === "waiting";
    if (!text.trim() || isSendingNow || isWaiting) return;
    if (attempt.text !== text) attempt = { text, key: newKey() };
    isSendingNow = true;
    complain("");
    show();
    try {
      const sent = call("POST", "/v1/runs", { input: text, conversation }, { "Idempotency-Key": attempt.key });
      if (!state.active) expectRun(sent.then(({ run_id }) => run_id));
      await sent;
      attempt = { text: "", key: "" };
      if (field.value === text) field.value = "";
      keepDraft(conversation, field.value);
      document.dispatchEvent(new CustomEvent("scroll-to-end"));
    } catch (error) {
      complain(error instanceof ApiError && error.status ? error.message : form.dataset.unreachable ?? "");
    } finally {
      isSendingNow = false;
      show();
      field.focus();
    }
  };

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  field.addEventListener("input", () => {
    keepDraft(conversation, field.value);
    complain("");
    show();
  });
  field.addEventListener("keydown", (event) => {
    if (isSending(event)) {
      event.preventDefault();
      submit();
    } else if (event.key === "ArrowUp" && !field.value && areShortcutsOn) {
      event.preventDefault();
      if (!editLast()) recall();
    }
  });

  /** The last message of the person, to be sent again with a change. */
  const recall = () => {
    const said = document.querySelectorAll("[data-said-by-user]");
    const last = said[said.length - 1];
    if (!last) return;
    field.value = last.textContent?.trim() ?? "";
    field.dispatchEvent(new Event("input"));
    field.setSelectionRange(field.value.length, field.value.length);
  };

  document.addEventListener("run-state", (event) => {
    state = /** @type {CustomEvent} */ (event).detail;
    show();
    // Whoever pressed Stop, Retry or Approve goes on here. On a phone that would open the keyboard.
    if (canHover && isFocusLost()) field.focus({ preventScroll: true });
  });
  // That nobody could be reached is not true any more.
  document.addEventListener("connection", (event) => {
    const { online } = /** @type {CustomEvent} */ (event).detail;
    if (online && problem?.textContent === form.dataset.unreachable) complain("");
  });
  // Another tab of the same conversation sent or changed the draft.
  window.addEventListener("storage", (event) => {
    if (event.key !== nameDraft(conversation) || document.activeElement === field) return;
    field.value = event.newValue ?? "";
    show();
  });

  forgetSent();
  field.value = readDraft(conversation);
  show();
  if (canHover && !location.hash) field.focus({ preventScroll: true });
}
