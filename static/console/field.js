// @ts-check
// A text field that grows with its text, and an idempotency key for what is sent from it.

/** @param {HTMLTextAreaElement} field */
export function grow(field) {
  field.style.height = "auto";
  field.style.height = `${field.scrollHeight}px`;
}

/** Enter without Shift, and not while an input method composes a character. @param {KeyboardEvent} event */
export function isSending(event) {
  return event.key === "Enter" && !event.shiftKey && !event.ctrlKey && !event.metaKey && !event.altKey && !event.isComposing;
}

/** Not `randomUUID`, which browsers offer on secure origins only. */
export function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
