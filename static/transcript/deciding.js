// @ts-check
// Approvals: a decision for each call of a step, sent together. Nothing is decided by Enter alone, or by a key that was
// meant for something else.

import { ApiError, call } from "./api.js";

class BadField extends Error {
  /** @param {HTMLElement} field @param {string} words */
  constructor(field, words) {
    super(words);
    this.field = field;
  }
}

/** @param {any} field @param {string} badJson @returns {unknown} undefined where it is left empty */
function valueOf(field, badJson) {
  const { kind, item } = field.dataset;
  if (kind === "boolean") return field.checked;
  if (kind === "text") return field.value;
  if (kind === "list") {
    const lines = field.value.split("\n").filter((/** @type {string} */ line) => line.trim() !== "");
    return lines.map((/** @type {string} */ line) => (item === "string" ? line : parse(field, line, badJson)));
  }
  if (field.value.trim() === "") {
    if (field.required) throw new BadField(field, misfitOf(field));
    return undefined;
  }
  return kind === "number" || kind === "integer" ? Number(field.value) : parse(field, field.value, badJson);
}

/** Which field it is that does not fit, in words.
 * @param {HTMLElement} field */
function misfitOf(field) {
  const label = field.closest(".field")?.querySelector("span")?.firstChild?.textContent?.trim() ?? "";
  return (field.closest("form")?.dataset.misfit ?? "").replace("{field}", label);
}

/** The field that the server does not take, where it names one: `decisions.0.arguments.to`.
 * @param {HTMLFormElement} form @param {unknown} error */
function fieldOf(form, error) {
  const [, number, path] = (error instanceof ApiError && /^decisions\.(\d+)\.arguments\.(.+)$/.exec(error.param)) || [];
  const fields = form.querySelectorAll("[data-call]")[Number(number)]?.querySelectorAll("[data-path]") ?? [];
  const isNamed = (/** @type {any} */ field) => `${path}.`.startsWith(`${JSON.parse(field.dataset.path).join(".")}.`);
  return /** @type {HTMLElement | undefined} */ ([...fields].find(isNamed));
}

/** @param {HTMLElement} field @param {string} text @param {string} words */
function parse(field, text, words) {
  try {
    return JSON.parse(text);
  } catch {
    throw new BadField(field, words);
  }
}

/** The arguments as the form has them now.
 * @param {HTMLElement} part @param {string} badJson @returns {Record<string, any>} */
function readArguments(part, badJson) {
  /** @type {Record<string, any>} */
  const made = {};
  for (const field of part.querySelectorAll("[data-path]")) {
    if (!(field instanceof HTMLElement)) continue;
    const path = JSON.parse(field.dataset.path ?? "[]");
    const value = valueOf(field, badJson);
    let place = made;
    for (const name of path.slice(0, -1)) place = place[name] ??= {};
    if (value !== undefined) place[path.at(-1)] = value;
  }
  return made;
}

/** @param {HTMLFormElement} form @param {HTMLElement} part @param {boolean} isApproved */
function decisionOf(form, part, isApproved) {
  /** @type {Record<string, unknown>} */
  const decision = { tool_call_id: part.dataset.call, approve: isApproved };
  const reason = /** @type {HTMLInputElement | null} */ ((part.querySelector("[data-choices]") ? part : form).querySelector("[data-reason]"));
  const fields = /** @type {HTMLElement | null} */ (part.querySelector("[data-fields]"));
  if (!isApproved) decision.reason = reason?.value.trim() ?? "";
  else if (fields && !fields.hidden) decision.arguments = readArguments(fields, form.dataset.badJson ?? "");
  return decision;
}

/** @param {HTMLFormElement} form @param {string} choice approve, deny, or all: as chosen for each */
function readDecisions(form, choice) {
  return [...form.querySelectorAll("[data-call]")].map((part) => {
    const field = /** @type {HTMLElement} */ (part);
    if (choice !== "all") return decisionOf(form, field, choice === "approve");
    const chosen = /** @type {HTMLInputElement | null} */ (field.querySelector("input[type=radio]:checked"));
    if (!chosen) {
      throw new BadField(/** @type {HTMLElement} */ (field.querySelector("input[type=radio]")), form.dataset.choose ?? "");
    }
    return decisionOf(form, field, chosen.value === "approve");
  });
}

/** @param {HTMLFormElement} form @param {string} choice */
async function decide(form, choice) {
  const problem = /** @type {HTMLElement} */ (form.querySelector("[data-problem]"));
  const status = /** @type {HTMLElement} */ (form.querySelector("[data-status]"));
  const buttons = /** @type {NodeListOf<HTMLButtonElement>} */ (form.querySelectorAll("[data-decide]"));
  problem.hidden = true;
  form.querySelector("[aria-invalid]")?.removeAttribute("aria-invalid");
  try {
    const decisions = readDecisions(form, choice);
    for (const button of buttons) button.disabled = true;
    status.textContent = form.dataset.sending ?? "";
    await call("POST", `/v1/runs/${form.dataset.question}/approvals`, { decisions });
  } catch (thrown) {
    const field = fieldOf(form, thrown);
    const error = field ? new BadField(field, misfitOf(field)) : thrown;
    problem.textContent = error instanceof Error ? error.message : String(error);
    problem.hidden = false;
    // A form may be long: what is wrong with a field is said where it is.
    if (error instanceof BadField) (error.field.closest("label, fieldset") ?? error.field).after(problem);
    else form.querySelector("footer")?.before(problem);
    status.textContent = "";
    for (const button of buttons) button.disabled = false;
    if (error instanceof BadField) {
      error.field.setAttribute("aria-invalid", "true");
      error.field.setAttribute("aria-describedby", problem.id);
      error.field.focus();
    }
  }
}

/** @param {HTMLElement} button */
function toggleEditing(button) {
  const part = button.closest("[data-call]");
  const fields = /** @type {HTMLElement | null} */ (part?.querySelector("[data-fields]"));
  const shown = /** @type {HTMLElement | null} */ (part?.querySelector("[data-shown]"));
  if (!fields || !shown) return;
  fields.hidden = !fields.hidden;
  shown.hidden = !fields.hidden;
  button.setAttribute("aria-expanded", String(!fields.hidden));
  const words = button.dataset.undo ?? "";
  button.dataset.undo = button.textContent ?? "";
  button.textContent = words;
  const first = fields.querySelector("input, textarea, select");
  if (!fields.hidden && first instanceof HTMLElement) first.focus();
}

/** @param {HTMLElement} box */
export function letDecide(box) {
  box.addEventListener("click", (event) => {
    if (!(event.target instanceof Element)) return;
    const form = event.target.closest("[data-question]");
    const button = event.target.closest("[data-decide]");
    if (form instanceof HTMLFormElement && button instanceof HTMLElement) decide(form, button.dataset.decide ?? "");
    const edit = event.target.closest("[data-edit]");
    if (edit instanceof HTMLElement) toggleEditing(edit);
  });
  box.addEventListener("keydown", (event) => {
    const form = event.target instanceof Element && event.target.closest("[data-question]");
    if (!(form instanceof HTMLFormElement) || event.key !== "Enter") return;
    const field = event.target instanceof HTMLInputElement;
    if ((event.ctrlKey || event.metaKey) && document.documentElement.dataset.shortcuts !== "off") {
      event.preventDefault();
      decide(form, form.querySelector("[data-decide=all]") ? "all" : "approve");
    } else if (field) event.preventDefault();
  });
}
