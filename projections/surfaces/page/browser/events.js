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
const momentName = (event) => (META.labels ? page.history.moment(event) : count(event));

/** Return what an event says, in words: its entry first. */
function eventText(event) {
  const entry = page.history.entryOf(event);
  return `${entry < 0 ? "" : `${page.history.name(entry)} `}${page.history.words(event)}`;
}

const eventAt = (index) => (page.found.events ? page.found.events[index] : page.history.base + index + 1);

/** Return the event by which another is undone at the moment, and the one by which it is undone later; 0 for none. */
function undosOf(event) {
  const by = page.history.undoneBy(event, view.event);
  return [by, by ? 0 : page.history.undoneAfter(event, view.event)];
}

function eventRow(index, made) {
  const { history } = page,
    event = eventAt(index),
    [by, later] = undosOf(event),
    moment = history.momentOf(event),
    isPart = history.firstOf(moment) !== history.last(moment),
    undone = by ? `undone by event ${eventName(by)}` : later ? `undone later by event ${eventName(later)}` : "",
    short = by ? `undone by ${eventName(by)}` : `until ${eventName(later)}`;
  made.className = ["event", by && "undone", moment === page.moment && "now", isPart && "part"]
    .filter(Boolean)
    .join(" ");
  made.title = `${eventText(event)}${undone && `, ${undone}`}`.slice(0, 400);
  fill(
    made,
    span("number", history.label(event)),
    signSpan(...sign(event)),
    span("text", quoted(eventText(event).slice(0, 300))),
    undone && el("span", { class: "tag faint", "aria-label": undone, text: short }),
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
      !found.isPlain && [" ", button("Show all", clearFilters, "link")],
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
const entryLink = (name) => button(quoted(page.history.name(name)), () => show({ entry: name }), "link");

/** Return an event's number as a button that goes to it. */
function eventLink(event) {
  const label = page.history.label(event);
  const onclick = () => show({ event });
  return el("button", { class: "link number", "aria-label": `Go to event ${label}`, onclick }, label);
}

/** Return in words how an entry changed. */
function changeWords({ before, after }) {
  const { history } = page,
    was = META.statuses[before.status],
    is = META.statuses[after.status],
    turned = (flag) => (before.flags ^ after.flags) & flag,
    words = [];
  if (was !== is && is === "kept") words.push(was === "absent" ? "new" : `back (was ${was})`);
  else if (was !== is) words.push(is === "merged" && after.into ? `merged into ${history.name(after.into - 1)}` : is);
  for (const key of ["helpful", "harmful"]) {
    if (was === "absent" && after[key]) words.push(`${after[key]} ${key}`);
    else if (was !== "absent" && before[key] !== after[key]) words.push(`${key} ${before[key]} → ${after[key]}`);
  }
  if (before.text !== after.text && was !== "absent") words.push("text changed");
  if (turned(PINNED)) words.push(after.flags & PINNED ? "pinned" : "unpinned");
  if (turned(RESTORED) && after.flags & RESTORED) words.push("protected until the next harmful rating");
  return words.join(", ") || "place changed";
}

const isWorse = ({ before, after }) =>
  after.harmful > before.harmful ||
  after.helpful < before.helpful ||
  (META.statuses[before.status] === "kept" && META.statuses[after.status] !== "kept");

function drawChange() {
  const { history, moment, changes } = page;
  const first = history.firstOf(moment),
    last = history.last(moment),
    head = (text) => el("h2", { id: "change-title", text });
  if (moment < 0) {
    fill($("change"), head("This moment"), note(`${beforeWords()}.`));
    return;
  }
  const { rater, session } = history.author(moment),
    parts = [],
    entries = plural(changes.length, "entry", "entries");
  for (let event = first; event <= Math.min(last, first + MOST_PARTS - 1); event++) parts.push(partRow(event));
  const shown = changes
    .slice(0, MOST_PARTS)
    .map((change) => [change, ...(isWorse(change) ? ["▼", "bad"] : ["▲", "good"])])
    .map(([change, mark, tone]) =>
      el("li", {}, signSpan(mark, tone), entryLink(change.name), span("what", quoted(changeWords(change)))),
    );
  const effect = view.since
    ? `Since event ${eventName(view.since)} ${changes.length ? `${entries} changed:` : "no entry of the playbook changed."}`
    : changes.length
      ? `It changed ${entries}:`
      : "It changed no entry of the playbook.";
  fill(
    $("change"),
    head(first === last ? `Event ${eventName(first)}` : `One batch: ${plural(last - first + 1, "event")}`),
    note(
      clock(history.time(moment)),
      " · by ",
      quoted(rater),
      session >= 0 && [" · session ", sessionLink(session)],
    ),
    el("h3", { text: effect }),
    shown.length ? el("ul", { class: "steps", tabindex: 0, "aria-label": "Changed entries" }, shown) : null,
    changes.length > MOST_PARTS && note(`and ${count(changes.length - MOST_PARTS)} more`),
    el("h3", { text: "What was recorded:" }),
    el("ol", { class: "steps", tabindex: 0, "aria-label": "Events of this moment" }, parts),
    last - first >= MOST_PARTS && note(`and ${count(last - first + 1 - MOST_PARTS)} more, in the list of events`),
    undoBoxes(moment),
  );
}

function partRow(event) {
  const { history } = page,
    entry = history.entryOf(event),
    [undone, later] = undosOf(event);
  return el(
    "li",
    { class: undone ? "undone" : false },
    span("number faint", history.label(event)),
    signSpan(...sign(event)),
    span("what", entry >= 0 && [entryLink(entry), " "], quoted(history.words(event)), quotesOf(event)),
    undone ? span("note", "undone by event ", eventLink(undone)) : null,
    later ? span("note", "undone later by event ", eventLink(later)) : null,
    undoRange("undid", history.undoes.get(event)),
    undoRange("brought back", history.redoes.get(event)),
  );
}

/** Return which events an undo concerns: the first and the last of them as links. */
function undoRange(verb, events) {
  if (!events) return null;
  const [first, last] = [events[0], events.at(-1)];
  return span(
    "note",
    `${verb} ${plural(events.length, "event")}: `,
    eventLink(first),
    last > first && [events.length === 2 ? ", " : " to ", eventLink(last)],
  );
}

/** Return the reasons and notes of an event, where the page has them. */
function quotesOf(event) {
  const { event: events, quotes } = page.quotes ?? { event: [] },
    from = above(events, event - 1);
  return events
    .slice(from, above(events, event))
    .map((_, at) => span("faint", ` ${quotes[from + at][0]}: `, quoted(quotes[from + at][1])));
}
