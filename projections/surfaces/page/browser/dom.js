// Elements, words and numbers: every text is inserted as text.

const $ = (id) => document.getElementById(id);

/** Return children in one list, without those that are left out: null, undefined and false. */
const present = (children) => children.flat(Infinity).filter((child) => (child ?? false) !== false);

/** Return an element with attributes and children; a string child is a text. `on…` attributes are functions. */
function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if ((value ?? false) === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "text") made.textContent = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...present(children));
  return made;
}

const span = (className, ...children) => el("span", { class: className }, ...children);
const note = (...children) => el("p", { class: "note" }, ...children);
const button = (words, onclick, className) => el("button", { class: className, onclick }, words);
/** Return words that only a screen reader says. */
const unseen = (text) => span("unseen", text);
/** Return a sign for the eye. */
const signSpan = (mark, tone) => el("span", { class: `sign ${tone}`, "aria-hidden": "true", text: mark });

/** Replace the children of an element; the focus stays on a control of the same words, or else on the element. */
function fill(target, ...children) {
  const { activeElement: held } = document,
    isHeld = held !== target && target.contains(held);
  target.replaceChildren(...present(children));
  if (!isHeld || held.isConnected) return;
  const same = [...target.querySelectorAll(held.tagName)].find((one) => one.textContent === held.textContent);
  if (!same && !target.hasAttribute("tabindex")) target.tabIndex = -1;
  (same || target).focus({ preventScroll: true });
}

/** Return a text of a ledger in an element that keeps its bidirectional marks to itself. */
const quoted = (text) => el("bdi", { text });

const count = (number) => number.toLocaleString("en");
const plural = (number, one, many) => `${count(number)} ${number === 1 ? one : many || one + "s"}`;

const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
const CLOCK = new Intl.DateTimeFormat("sv", { dateStyle: "short", timeStyle: "medium" });
/** Return a time, in milliseconds since 1970, as `2026-11-23 12:30:05` in the zone of the reader. */
const clock = (ms) => (Number.isFinite(ms) ? CLOCK.format(ms) : "no time");

/** Run a function at most once per frame. */
function perFrame(work) {
  let frame = 0;
  return () => {
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      work();
    });
  };
}

/** Run a function once its calls have paused. */
function settled(work, pause) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...given), pause);
  };
}

/** Tell a screen reader something, once the reader rests. */
const say = settled((text) => {
  $("live").textContent = text;
}, 250);

/** Return the first index for which a rising array, or what `key` returns of its items, is above a value. */
function above(sorted, value, low = 0, high = sorted.length, key = (item) => item) {
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (key(sorted[middle]) > value) high = middle;
    else low = middle + 1;
  }
  return low;
}
