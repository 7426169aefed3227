// The page comes together: what is shown follows from `view`.

/** What was read and drawn: the parts of the document come in with `start`. */
const page = { names: new Map(), lifeQueue: [] };

const PANELS = {
  playbook: [() => makeList("Entries of the playbook", 46, entryRow), drawPlaybook],
  lives: [makeLives, drawLives],
  former: [() => makeList("Entries that left the playbook", 46, entryRow), drawFormer],
  sessions: [makeSessions, drawSessions],
  scores: [makeScores, drawScores],
};

const KEYS = [
  ["j", "next moment", () => step(1)],
  ["k", "moment before", () => step(-1)],
  ["n", "next event of the selected entry", () => stepEntry(1)],
  ["p", "event before of the selected entry", () => stepEntry(-1)],
  ["g", "go to a moment", openGo],
  [" ", "play or pause", () => play()],
  ["Home", "before the first event", () => goTo(-1)],
  ["End", "the latest moment", () => goTo(page.history.moments - 1)],
  ["/", "search", () => $("query").focus()],
  ["c", "compare with this moment, or no longer", compare],
  ["1 … 5", "the views", null],
  ["Escape", "clear the search and the filters", clearFilters],
  ["?", "these keys", () => $("help-dialog").showModal()],
];

/** Button → the key that does the same. */
const BUTTONS = {
  first: "Home",
  back: "k",
  play: " ",
  next: "j",
  latest: "End",
  "touched-before": "p",
  "touched-next": "n",
  compare: "c",
  go: "g",
  help: "?",
};

const actionOf = (name) => KEYS.find(([key]) => key === name)?.[2];

/** Draw everything that the view says. */
function draw() {
  const { history } = page,
    filters = JSON.stringify(FILTERS.map((key) => view[key])),
    began = performance.now();
  const { timeline } = history;
  const anew = page.anew || filters !== page.filters;
  if (anew) page.found = new Found(view);
  Object.assign(page, { anew, filters, timeline, moment: history.momentOf(view.event) });
  page.book = timeline.book(view.event);
  page.changes = view.since
    ? history.differences(history.film.names.keys(), view.since, view.event)
    : history.changes(page.moment);
  page.changeOf = new Map(page.changes.map((change) => [change.name, change]));
  drawFilm();
  drawEvents(anew);
  drawChange();
  drawTabs();
  PANELS[view.tab][1]();
  drawStory();
  drawFilters();
  page.anew = false;
  const { body } = document;
  Object.assign(body.dataset, {
    event: view.event,
    entry: view.entry < 0 ? "" : history.name(view.entry),
    tab: view.tab,
  });
  body.dataset.took = (performance.now() - began).toFixed(2);
  const changed = page.changes
    .slice(0, 3)
    .map((change) => `${history.name(change.name)} ${changeWords(change)}`)
    .join("; ");
  say(page.moment < 0 ? "Before the first event." : `Moment ${page.moment + 1}, ${eventText(view.event)}. ${changed}`);
}

function drawFilters() {
  for (const key of ["kind", "rater"]) $(key).value = view[key];
  if ($("query") !== document.activeElement) $("query").value = view.q;
  const line = viewCommand();
  $("command").textContent = line || "There is no command for this view.";
  $("copy-command").disabled = !line;
}

function drawTabs() {
  if (page.tab === view.tab) return;
  page.tab = view.tab;
  page.anew = true;
  for (const tab of $("tabs").children) {
    const chosen = tab.id === `tab-${view.tab}`;
    tab.setAttribute("aria-selected", String(chosen));
    tab.tabIndex = chosen ? 0 : -1;
  }
  $("panel").setAttribute("aria-labelledby", `tab-${view.tab}`);
  PANELS[view.tab][0]();
}

function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const { target } = event,
    writes = target.closest("input:not([type=range]), select, textarea");
  if (writes) {
    if (event.key === "Escape") target.blur();
    return;
  }
  if (event.key === " " && target.closest("button, [role=option]")) return;
  if (["Home", "End"].includes(event.key) && target.closest("input, .list, [role=tab]")) return;
  const tab = TABS[Number(event.key) - 1];
  const action = actionOf(event.key);
  if (!action && !tab) return;
  event.preventDefault();
  if (action) action();
  else show({ tab: tab[0] });
}

function makeTabs() {
  const made = ([tab, text]) =>
    el("button", { role: "tab", id: `tab-${tab}`, "aria-controls": "panel", onclick: () => show({ tab }), text });
  fill($("tabs"), TABS.map(made));
  $("tabs").addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    const at = TABS.findIndex(([tab]) => tab === view.tab),
      [tab] = TABS[(at + by + TABS.length) % TABS.length];
    show({ tab });
    $(`tab-${tab}`).focus();
  });
}

function listen() {
  const on = (id, type, run) => $(id).addEventListener(type, run);
  const search = settled(() => show({ q: $("query").value }), 120);
  on("slider", "input", () => goTo(Number($("slider").value) - 1));
  for (const [id, key] of Object.entries(BUTTONS)) on(id, "click", () => actionOf(key)());
  on("go-dialog", "submit", takeGo);
  on("query", "input", search);
  for (const key of ["kind", "rater"]) on(key, "change", () => show({ [key]: $(key).value }));
  on("copy-command", "click", () => copy($("command").textContent));
  on("copy-link", "click", () => copy(location.href.split("#")[0] + route()));
  on("save-json", "click", () => save(`${view.tab}-${view.event}.json`, "application/json", asJson(shownRows())));
  on("save-csv", "click", () => save(`${view.tab}-${view.event}.csv`, "text/csv", asCsv(shownRows())));
  on("skip", "click", (event) => {
    event.preventDefault();
    $("slider").focus();
  });
  document.addEventListener("keydown", press);
  addEventListener("hashchange", () => {
    readRoute();
    page.draw();
  });
  addEventListener("resize", perFrame(drawPulse));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    page.anew = true;
    colours.clear();
    drawPulse();
    page.draw();
  });
  const print = (on) => [page.eventList, page.panelList].forEach((list) => list?.print(on));
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
}

function drawHead() {
  const { counts, head, made, warnings = [], texts, quotes } = META;
  $("project").textContent = META.project ? `· ${META.project}` : "";
  $("facts").textContent =
    `${plural(counts.events, "event")} in ${plural(counts.moments, "moment")}, ${plural(counts.entries, "entry", "entries")}, ${plural(counts.sessions, "session")}; head ${head.slice(0, 24)}; made ${clock(Date.parse(made))} ${ZONE}`;
  $("made").textContent =
    `Made by Tallybook ${META.tallybook} from ledger ${META.ledger}, head ${head}, on ${clock(Date.parse(made))} (times are of ${ZONE}). ${texts ? "It has the texts of the entries" : "It has no texts"}${quotes ? ", reasons and quotes." : "; no reasons and quotes."}`;
  warn(warnings);
  document.title = `Tallybook${META.project ? ` · ${META.project}` : ""}`;
  fill(
    $("help-keys"),
    KEYS.map(([key, words]) => [el("dt", { text: key === " " ? "space" : key }), el("dd", { text: words })]),
  );
}

/** Unpack the document, and draw it. */
async function start() {
  drawHead();
  const { film, ...others } = await unpack();
  page.history = new History(film);
  film.names.forEach((name, i) => page.names.set(name, i));
  page.draw = perFrame(draw);
  page.anew = true;
  fillFilters();
  makeTabs();
  makeEvents();
  listen();
  Object.assign(page, others);
  page.storyOf = new Map(page.stories.stories.map((story) => [story.entry, story]));
  readRoute();
  draw();
  document.body.dataset.ready = performance.now().toFixed(0);
  drawPulse();
  if (META.served) setInterval(follow, ASK_MS);
}

// A served page follows its ledger; a page in a file asks nobody.

const ASK_MS = 2_000;

/** Ask now and then whether the ledger has grown, and load the page again where it has. */
async function follow() {
  if (document.hidden) return;
  try {
    const answer = await fetch("head", { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.statusText);
    const { head, redactions } = await answer.json();
    const isRedacted = redactions > META.redactions;
    if (head === META.head) warn(META.warnings || []);
    // Who plays the film or writes into a dialog is not interrupted, unless a text must leave the screen.
    else if (isRedacted || !(playing || document.querySelector("dialog[open]"))) reload(isRedacted);
  } catch {
    warn(["The server of this page has ended: the page stays as it was made."]);
  }
}

/** Load the page again: at its end it shows the new end, elsewhere the same moment. */
function reload(isRedacted) {
  if (isRedacted) warn(["Texts were redacted since this page was made; it is loaded again."]);
  const fragment = view.event === page.history.events ? route().replace(/event=\d+&?/, "") : route();
  history.replaceState(null, "", fragment);
  location.reload();
}

function warn(warnings) {
  $("warning").hidden = !warnings.length;
  const text = warnings.join(" ");
  if ($("warning").textContent !== text) $("warning").textContent = text;
}

start();
