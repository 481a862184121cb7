// @ts-check
// What was typed and not sent survives a reload, for each conversation and for the one that is not begun, on this device.

/** In place of the id of a conversation: the first question of a new one. Others may sign in at this device. */
export const OPENING = `new.${document.documentElement.dataset.user}`;
const SENT = "sent-opening";

/** Where it is kept. @param {string} conversation */
export function nameDraft(conversation) {
  return `draft.${conversation}`;
}

/** @param {string} conversation */
export function readDraft(conversation) {
  return localStorage.getItem(nameDraft(conversation)) ?? "";
}

/** @param {string} conversation @param {string} text */
export function keepDraft(conversation, text) {
  if (text) localStorage.setItem(nameDraft(conversation), text);
  else localStorage.removeItem(nameDraft(conversation));
}

/** The first question is on its way. It stays a draft until its conversation is open: the way may end at an error.
 * @param {string} text */
export function noteSent(text) {
  sessionStorage.setItem(SENT, text);
}

/** Its conversation is open. */
export function forgetSent() {
  const sent = sessionStorage.getItem(SENT);
  if (sent !== null && sent === readDraft(OPENING)) keepDraft(OPENING, "");
  sessionStorage.removeItem(SENT);
}
