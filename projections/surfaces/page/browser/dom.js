// Elements, words and numbers: every text is inserted as text.

const $ = (id) => document.getElementById(id);

/** Return an element with attributes and children; a string child is a text. `on…` attributes are functions. */
function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "text") made.textContent = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

/** Replace the children of an element; the focus stays on a control of the same words, or else on the element. */
function fill(target, ...children) {
  const { activeElement: held } = document,
    isHeld = held !== target && target.contains(held);
  target.replaceChildren(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );
  if (!isHeld || held.isConnected) return;
  const same = [...target.querySelectorAll(held.tagName)].find((one) => one.textContent === held.textContent);
  if (!same && !target.hasAttribute("tabindex")) target.tabIndex = -1;
  (same || target).focus({ preventScroll: true });
}

/** Return a text of a ledger in an element that keeps its bidirectional marks to itself. */
const quoted = (text, className) => el("bdi", { class: className, text });

const count = (number) => number.toLocaleString("en");
const plural = (number, one, many) => `${count(number)} ${number === 1 ? one : many || one + "s"}`;

const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
const CLOCK = new Intl.DateTimeFormat("sv", {
  year: "numeric",
  month: "2-digit",
  day: "2-digit",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
});
/** Return a time, in milliseconds since 1970, as `2026-11-23 12:30:05` in the zone of the reader. */
const clock = (ms) => (Number.isFinite(ms) ? CLOCK.format(ms) : "no time");

/** Run a function at most once per frame. */
function perFrame(work) {
  let waits = false;
  return () => {
    if (waits) return;
    waits = true;
    requestAnimationFrame(() => {
      waits = false;
      work();
    });
  };
}

/** Run a function once its calls have paused. */
function settled(work, pause) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(work, pause);
  };
}

const say = (() => {
  let words = "";
  const speak = settled(() => {
    $("live").textContent = words;
  }, 250);
  /** Tell a screen reader something, once the reader rests. */
  return (text) => {
    words = text;
    speak();
  };
})();

/** Return the first index for which a rising array, or what `key` returns of its items, is above a value. */
function above(sorted, value, low = 0, high = sorted.length, key = (item) => item) {
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (key(sorted[middle]) > value) high = middle;
    else low = middle + 1;
  }
  return low;
}
