// @ts-check
// Moments in the reader's own time, and how long something has been going on.

// The page says en, the reader perhaps en-GB: the same language, with another clock.
const page = document.documentElement.lang;
const language = navigator.languages.find((one) => one === page || one.startsWith(`${page}-`)) ?? page;
const formats = {
  short: new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit" }),
  date: new Intl.DateTimeFormat(language, { dateStyle: "medium" }),
  day: new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "short" }),
  long: new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "medium" }),
};

/** @param {Element} node */
export function localiseTimes(node) {
  for (const time of node.querySelectorAll("time")) {
    const moment = new Date(time.dateTime);
    const format = formats[/** @type {keyof typeof formats} */ (time.dataset.format ?? "short")];
    time.textContent = format.format(moment);
    time.title = formats.long.format(moment);
  }
}

/** How long something took, as the server writes it, too. @param {number} seconds */
export function asWords(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  return whole < 60 ? `${whole} s` : `${Math.floor(whole / 60)} min ${whole % 60} s`;
}

/** @param {HTMLElement} box */
export function keepTime(box) {
  setInterval(() => {
    for (const clock of box.querySelectorAll("[data-since]")) {
      if (!(clock instanceof HTMLElement)) continue;
      clock.textContent = asWords((Date.now() - Date.parse(clock.dataset.since ?? "")) / 1000);
    }
  }, 1000);
}
