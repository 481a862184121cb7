// @ts-check
// Renaming a conversation in its place, and deleting it with an undo instead of a question.

import { call } from "../transcript/api.js";
import { refresh } from "./conversations.js";
import { notify } from "./notices.js";

const room = document.querySelector("[data-conversations]");
const DELETED = "deleted-conversation";

/** @param {string} name @param {string} value */
function words(name, value) {
  return (room instanceof HTMLElement ? room.dataset[name] ?? "" : "").replace("%s", value);
}

/** @param {unknown} error */
function complain(error) {
  notify(words("failed", error instanceof Error ? error.message : String(error)), { isWrong: true });
}

/** @param {HTMLElement} entry */
function titleOf(entry) {
  return entry.querySelector(".entry-title")?.textContent ?? "";
}

/** @param {HTMLElement} entry */
function rename(entry) {
  const template = room?.querySelector("[data-rename-form]");
  const link = entry.querySelector(".entry-link");
  const tools = entry.querySelector(".entry-tools");
  if (!(template instanceof HTMLTemplateElement) || !(link instanceof HTMLElement) || !(tools instanceof HTMLElement)) return;
  const made = /** @type {DocumentFragment} */ (template.content.cloneNode(true));
  const form = /** @type {HTMLFormElement} */ (made.firstElementChild);
  const input = /** @type {HTMLInputElement} */ (form.elements.namedItem("title"));
  const before = titleOf(entry);
  input.value = before;
  link.hidden = tools.hidden = true;
  entry.prepend(form);
  input.select();
  input.focus();

  let isDone = false;
  /** @param {boolean} isKept */
  const finish = async (isKept) => {
    if (isDone) return;
    isDone = true;
    const title = input.value.trim();
    form.remove();
    link.hidden = tools.hidden = false;
    link.focus();
    if (isKept && title && title !== before) {
      const shown = entry.querySelector(".entry-title");
      if (shown) shown.textContent = title;
      try {
        await call("PATCH", `/v1/conversations/${entry.dataset.conversation}`, { title });
        if (room instanceof HTMLElement && entry.dataset.conversation === room.dataset.current) {
          document.dispatchEvent(new CustomEvent("title-changed", { detail: title }));
        }
      } catch (error) {
        if (shown) shown.textContent = before;
        complain(error);
      }
    }
    refresh();
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    finish(true);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.preventDefault();
    event.stopPropagation();
    finish(false);
  });
  input.addEventListener("blur", () => finish(true));
}

/** @param {string} id @param {string} title */
function offerUndo(id, title) {
  notify(words("deleted", title), {
    action: words("undo", ""),
    onAction: async () => {
      try {
        await call("POST", `/v1/conversations/${id}/restore`);
        refresh();
      } catch (error) {
        complain(error);
      }
    },
    seconds: 30,
  });
}

/** @param {HTMLElement} entry */
async function remove(entry) {
  const id = entry.dataset.conversation ?? "";
  const title = titleOf(entry);
  const next = entry.nextElementSibling ?? entry.previousElementSibling;
  entry.hidden = true;
  try {
    await call("DELETE", `/v1/conversations/${id}`);
  } catch (error) {
    entry.hidden = false;
    complain(error);
    return;
  }
  if (room instanceof HTMLElement && id === room.dataset.current) {
    // Its page is gone: the undo goes along to the front page.
    sessionStorage.setItem(DELETED, JSON.stringify({ id, title }));
    location.assign("/");
    return;
  }
  const link = next?.querySelector(".entry-link");
  if (link instanceof HTMLElement) link.focus();
  offerUndo(id, title);
  refresh();
}

room?.addEventListener("click", (event) => {
  if (!(event.target instanceof Element)) return;
  const entry = event.target.closest("li[data-conversation]");
  if (!(entry instanceof HTMLElement)) return;
  if (event.target.closest("[data-rename]")) rename(entry);
  else if (event.target.closest("[data-delete]")) remove(entry);
});

const deleted = sessionStorage.getItem(DELETED);
if (deleted) {
  sessionStorage.removeItem(DELETED);
  const { id, title } = JSON.parse(deleted);
  offerUndo(id, title);
}
