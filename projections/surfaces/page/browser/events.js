// The list of events under the slider, and what happened in the moment.

const SIGNS = {
  "point.added": ["+", "good"],
  "point.seeded": ["+", "good"],
  "point.removed": ["×", "bad"],
  "point.retired": ["×", "bad"],
  "point.restored": ["↺", "good"],
  "point.merged": ["⇒", ""],
  "point.pinned": ["⚲", ""],
  "point.unpinned": ["⚬", ""],
  "point.cited": ["◆", "cited"],
  "playbook.injected": ["→", "shown"],
  "events.voided": ["↶", "bad"],
  "point.reworded": ["✎", ""],
  "point.edited": ["✎", ""],
  "playbook.updated": ["✓", ""],
};

/** Return the sign of an event and its class. */
function sign(event) {
  const counted = page.history.counted(event);
  if (counted === "helpful") return ["▲", "good"];
  if (counted === "harmful") return ["▼", "bad"];
  return SIGNS[page.history.kind(event)] || ["·", "faint"];
}

/** Return the number of an event for people. */
const eventName = (event) => (META.labels ? page.history.label(event) : count(event));

/** Return what an event says, in words: its entry first. */
function eventText(event) {
  const entry = page.history.entryOf(event);
  return `${entry < 0 ? "" : `${page.history.name(entry)} `}${page.history.words(event)}`;
}

const eventAt = (index) => (page.found.events ? page.found.events[index] : page.history.base + index + 1);

function eventRow(index, made) {
  const { history } = page,
    event = eventAt(index),
    [mark, tone] = sign(event);
  const by = history.undoneBy(event, view.event),
    later = by ? 0 : history.undoneAfter(event, view.event);
  const moment = history.momentOf(event),
    whole = history.firstOf(moment) === history.last(moment);
  made.className = ["event", by && "undone", moment === page.moment && "now", !whole && "part"]
    .filter(Boolean)
    .join(" ");
  const undone = by ? `, undone by event ${eventName(by)}` : later ? `, undone later by event ${eventName(later)}` : "";
  made.title = `${eventText(event)}${undone}`.slice(0, 400);
  const short =
    by || later
      ? el("span", {
          class: "tag faint",
          "aria-label": undone.slice(2),
          text: by ? `undone by ${eventName(by)}` : `until ${eventName(later)}`,
        })
      : null;
  fill(
    made,
    el("span", { class: "number", text: history.label(event) }),
    el("span", { class: `sign ${tone}`, "aria-hidden": "true", text: mark }),
    el("span", { class: "text" }, quoted(eventText(event).slice(0, 300))),
    short,
  );
}

function makeEvents() {
  page.eventList = new VirtualList($("event-list"), {
    height: 28,
    label: "Events",
    paper: 15,
    row: eventRow,
    choose: (index) => {
      const event = eventAt(index),
        entry = page.history.entryOf(event);
      show(entry < 0 ? { event } : { event, entry });
    },
  });
}

function drawEvents(anew) {
  const { history, found, eventList } = page;
  const length = found.events ? found.events.length : history.events - history.base;
  const at = found.events ? above(found.events, view.event) - 1 : view.event - history.base - 1;
  if (anew) {
    eventList.set(length, at);
    fill(
      $("events-note"),
      found.isPlain ? plural(length, "event") : `${count(length)} of ${plural(history.events, "event")} match`,
      view.session >= 0 && [" in ", quoted(sessionName(view.session))],
      !found.isPlain && [" ", el("button", { class: "link", text: "Show all", onclick: clearFilters })],
    );
  } else eventList.select(at);
  if (at < 0) eventList.reveal(0);
}

/** Clear the search and the filters. */
const clearFilters = () => show({ q: "", kind: "", rater: "", session: -1 });

const MOST_PARTS = 100;

/** Return where the page is before its first moment. */
const beforeWords = () =>
  page.history.base
    ? `The snapshot of event ${eventName(page.history.base)}, before the moments of this page`
    : "Before the first event: the playbook is empty";

/** Return an entry's name as a button that selects it. */
function entryLink(name) {
  return el("button", { class: "link", onclick: () => show({ entry: name }) }, quoted(page.history.name(name)));
}

/** Return an event's number as a button that goes to it. */
function eventLink(event) {
  return el("button", {
    class: "link number",
    "aria-label": `Go to event ${page.history.label(event)}`,
    onclick: () => show({ event }),
    text: page.history.label(event),
  });
}

/** Return in words how an entry changed. */
function changeWords({ before, after }) {
  const { history } = page,
    was = META.statuses[before.status],
    is = META.statuses[after.status],
    words = [];
  if (was !== is)
    words.push(
      is === "kept"
        ? was === "absent"
          ? "new"
          : `back (was ${was})`
        : is === "merged" && after.into
          ? `merged into ${history.name(after.into - 1)}`
          : is,
    );
  for (const key of ["helpful", "harmful"]) {
    if (before[key] !== after[key] && was !== "absent") words.push(`${key} ${before[key]} → ${after[key]}`);
    else if (was === "absent" && after[key]) words.push(`${after[key]} ${key}`);
  }
  if (before.text !== after.text && was !== "absent") words.push("text changed");
  if ((before.flags ^ after.flags) & PINNED) words.push(after.flags & PINNED ? "pinned" : "unpinned");
  if ((before.flags ^ after.flags) & RESTORED && after.flags & RESTORED)
    words.push("protected until the next harmful rating");
  return words.join(", ") || "place changed";
}

const isWorse = ({ before, after }) =>
  after.harmful > before.harmful ||
  after.helpful < before.helpful ||
  (META.statuses[before.status] === "kept" && META.statuses[after.status] !== "kept");

function drawChange() {
  const { history, moment, changes } = page;
  const first = history.firstOf(moment),
    last = history.last(moment);
  if (moment < 0) {
    fill(
      $("change"),
      el("h2", { id: "change-title", text: "This moment" }),
      el("p", { class: "note", text: `${beforeWords()}.` }),
    );
    return;
  }
  const { rater, session } = history.author(moment);
  const parts = [];
  for (let event = first; event <= Math.min(last, first + MOST_PARTS - 1); event++) parts.push(partRow(event));
  const shown = changes
    .slice(0, MOST_PARTS)
    .map((change) =>
      el(
        "li",
        {},
        el("span", {
          class: isWorse(change) ? "sign bad" : "sign good",
          "aria-hidden": "true",
          text: isWorse(change) ? "▼" : "▲",
        }),
        entryLink(change.name),
        el("span", { class: "what" }, quoted(changeWords(change))),
      ),
    );
  const entries = plural(changes.length, "entry", "entries");
  const effect = view.since
    ? `Since event ${eventName(view.since)} ${changes.length ? `${entries} changed:` : "no entry of the playbook changed."}`
    : changes.length
      ? `It changed ${entries}:`
      : "It changed no entry of the playbook.";
  const title = first === last ? `Event ${eventName(first)}` : `One batch: ${plural(last - first + 1, "event")}`;
  fill(
    $("change"),
    el("h2", { id: "change-title", text: title }),
    el(
      "p",
      { class: "note" },
      clock(history.time(moment)),
      " · by ",
      quoted(rater),
      session >= 0 && [" · session ", sessionLink(session)],
    ),
    el("h3", { text: effect }),
    shown.length ? el("ul", { class: "steps", tabindex: 0, "aria-label": "Changed entries" }, shown) : null,
    changes.length > MOST_PARTS
      ? el("p", { class: "note", text: `and ${count(changes.length - MOST_PARTS)} more` })
      : null,
    el("h3", { text: "What was recorded:" }),
    el("ol", { class: "steps", tabindex: 0, "aria-label": "Events of this moment" }, parts),
    last - first >= MOST_PARTS &&
      el("p", { class: "note", text: `and ${count(last - first + 1 - MOST_PARTS)} more, in the list of events` }),
    undoBoxes(moment),
  );
}

function partRow(event) {
  const { history } = page,
    [mark, tone] = sign(event),
    entry = history.entryOf(event),
    undone = history.undoneBy(event, view.event);
  const later = undone ? 0 : history.undoneAfter(event, view.event);
  return el(
    "li",
    { class: undone ? "undone" : false },
    el("span", { class: "number faint", text: history.label(event) }),
    el("span", { class: `sign ${tone}`, "aria-hidden": "true", text: mark }),
    el("span", { class: "what" }, entry >= 0 && [entryLink(entry), " "], quoted(history.words(event)), quotesOf(event)),
    undone ? el("span", { class: "note" }, "undone by event ", eventLink(undone)) : null,
    later ? el("span", { class: "note" }, "undone later by event ", eventLink(later)) : null,
    undoRange("undid", history.undoes.get(event)),
    undoRange("brought back", history.redoes.get(event)),
  );
}

/** Return which events an undo concerns: the first and the last of them as links. */
function undoRange(verb, events) {
  if (!events) return null;
  const [first, last] = [events[0], events.at(-1)];
  return el(
    "span",
    { class: "note" },
    `${verb} ${plural(events.length, "event")}: `,
    eventLink(first),
    last > first && [events.length === 2 ? ", " : " to ", eventLink(last)],
  );
}

/** Return the reasons and notes of an event, where the page has them. */
function quotesOf(event) {
  const { quotes } = page;
  if (!quotes) return [];
  const rows = [];
  for (let i = above(quotes.event, event - 1); i < quotes.event.length && quotes.event[i] === event; i++) {
    rows.push(el("span", { class: "faint" }, ` ${quotes.quotes[i][0]}: `, quoted(quotes.quotes[i][1])));
  }
  return rows;
}
