// @ts-check
// What was typed and not sent survives a reload, for each conversation, on this device.

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
