// @ts-check
// The first question of a conversation: plain forms, which Enter sends and a second click does not send again.

import { OPENING, keepDraft, noteSent, readDraft } from "./drafts.js";
import { grow, isSending, newKey } from "./field.js";

for (const form of document.querySelectorAll("form[data-opening]")) {
  if (!(form instanceof HTMLFormElement)) continue;
  const field = form.querySelector("textarea");
  form.addEventListener("submit", (event) => {
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "yes";
    if (field) noteSent(field.value);
  });
  if (!field) continue;
  field.value ||= readDraft(OPENING);
  field.addEventListener("keydown", (event) => {
    if (!isSending(event) || !field.value.trim()) return;
    event.preventDefault();
    form.requestSubmit();
  });
  field.addEventListener("input", () => {
    keepDraft(OPENING, field.value);
    grow(field);
  });
  grow(field);
}

// Whoever comes back by the browser's button means a new question, not the old one again.
window.addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-opening]")) {
    if (!(form instanceof HTMLFormElement)) continue;
    delete form.dataset.sent;
    const key = form.elements.namedItem("key");
    if (key instanceof HTMLInputElement) key.value = newKey();
  }
});
