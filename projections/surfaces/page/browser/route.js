// What the page shows, as the fragment of its address: every state has a link, and nothing of it reaches a server.

const TABS = [
  ["playbook", "Playbook"],
  ["lives", "Life lines"],
  ["former", "Former entries"],
  ["sessions", "Sessions"],
  ["scores", "Scores"],
];
const FILTERS = ["q", "kind", "rater", "session"];

/** What is shown. `event` 0 is before the first event; `entry` and `session` are indexes, -1 for none. */
const view = { event: 0, entry: -1, tab: "playbook", since: 0, q: "", kind: "", rater: "", session: -1 };

/** Read the fragment into `view`; what it does not name is as the page opens. */
function readRoute() {
  const words = new URLSearchParams(location.hash.slice(1));
  const number = (name, otherwise) => {
    const text = words.get(name) ?? "";
    return /^[0-9]{1,15}$/.test(text) ? Math.min(Number(text), page.history.events) : otherwise;
  };
  const { opens } = META;
  view.event = page.history.last(page.history.momentAt(number("event", opens?.event ?? page.history.events)));
  view.since = number("since", 0);
  view.entry = words.has("entry") ? (page.names.get(words.get("entry")) ?? -1) : (opens?.entry ?? lastThatLeft());
  view.tab = TABS.some(([tab]) => tab === words.get("tab")) ? words.get("tab") : "playbook";
  for (const key of ["q", "kind", "rater"]) view[key] = words.get(key) ?? "";
  view.session = words.has("session") ? findSession(words.get("session")) : -1;
}

/** Return the entry that left the playbook last, -1 where none did. */
function lastThatLeft() {
  const { timeline } = page.history,
    since = (name) => timeline.state(name, view.event).since;
  return timeline.book(view.event).gone.reduce((latest, name) => (latest < 0 || since(name) > since(latest) ? name : latest), -1);
}

/** Return the fragment of the present view. */
function route() {
  const words = new URLSearchParams();
  words.set("event", view.event);
  words.set("entry", view.entry < 0 ? "" : page.history.name(view.entry));
  if (view.tab !== "playbook") words.set("tab", view.tab);
  if (view.since) words.set("since", view.since);
  for (const key of ["q", "kind", "rater"]) if (view[key]) words.set(key, view[key]);
  if (view.session >= 0) words.set("session", sessionKey(view.session));
  return `#${words}`;
}

/** Return what names a session in a link: its id, or its number where the page has no ids. */
function sessionKey(index) {
  return page.sessions?.ids ? page.sessions.ids[index] : String(index + 1);
}

function findSession(key) {
  if (page.sessions?.ids) return page.sessions.ids.indexOf(key);
  return /^[0-9]{1,9}$/.test(key) ? Number(key) - 1 : -1;
}

// Browsers stop a page that changes its address at every frame.
const writeRoute = settled(() => {
  if (location.hash !== route()) history.replaceState(null, "", route());
}, 180);

/** Change what is shown, and draw it in the next frame. */
function show(changes) {
  Object.assign(view, changes);
  if ("event" in changes) view.event = page.history.last(page.history.momentOf(view.event));
  page.draw();
  writeRoute();
}
