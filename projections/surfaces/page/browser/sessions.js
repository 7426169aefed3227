// Sessions: what each was given, cited and rated, what came of it, and the command that undoes it.

/** Count what each session did, once. */
function countSessions() {
  if (page.tally) return page.tally;
  const { history } = page,
    { film } = history,
    none = { first: 0, last: 0, events: 0, helpful: 0, harmful: 0, cited: 0, undoable: 0, undo: 0 },
    tally = Array.from({ length: META.counts.sessions }, (_, index) => ({ index, ...none }));
  for (let m = 0, e = history.base + 1; m < history.moments; m++) {
    const at = tally[film.authors[film.m_author[m]][1] - 1];
    for (; e <= history.lasts[m]; e++) {
      if (!at) continue;
      at.first ||= e;
      at.last = e;
      at.events++;
      const kind = history.kind(e),
        rating = history.rating(e);
      if (rating === "helpful" || rating === "harmful") at[rating]++;
      else if (kind === "point.cited") at.cited++;
      const undo = history.undoneBy(e, history.events);
      if (undo) at.undo = undo;
      else if (kind !== "events.voided" && META.undo[kind]) at.undoable++;
    }
  }
  return (page.tally = tally.filter(({ events }) => events).sort((one, other) => other.first - one.first));
}

function sessionName(index) {
  return page.sessions?.ids?.[index] ?? `session ${index + 1}`;
}

const sessionLink = (index) =>
  button(quoted(sessionName(index)), () => show({ tab: "sessions", session: index }), "link");

/** Return the agent and the model of a session, where the page has them. */
function agentOf(index) {
  return page.sessions?.agents?.[index] ?? "";
}

/** Return the time of an event. */
const timeOf = (event) => clock(page.history.time(page.history.momentOf(event)));

function sessionRow(row, made) {
  made.className = "session";
  made.append(
    span("clip", quoted(sessionName(row.index)), " ", span("faint", quoted(agentOf(row.index)))),
    span("note clip", timeOf(row.first)),
    span(
      "clip number",
      span("good", `▲${row.helpful}`),
      " ",
      span("bad", `▼${row.harmful}`),
      " ",
      span("cited", `◆${row.cited}`),
    ),
  );
}

const makeSessions = () =>
  makeList("Sessions", 34, sessionRow, {
    after: el("div", { id: "session" }),
    choose: ({ index }) => show({ session: index }),
  });

function drawSessions() {
  const matches = ({ index }) =>
      page.found.words.every((word) => authorText(page.history.film, 0, index + 1).includes(word)),
    rows = countSessions().filter((row) => row.index === view.session || matches(row)),
    selected = setPanelRows(
      rows,
      rows.findIndex(({ index }) => index === view.session),
    );
  $("panel-note").textContent = rows.length
    ? `${plural(rows.length, "session")}, latest first. Choosing one lists its events only.`
    : "No event names a session.";
  $("entries").classList.toggle("short", Boolean(selected));
  drawSession(selected);
}

const MOST_NAMES = 60;

/** Draw what one session did and what came of it. */
function drawSession(row) {
  if (!row) {
    fill($("session"));
    return;
  }
  const influence = sessionInfluence(row.index),
    agent = agentOf(row.index),
    when = (event) => `event ${eventName(event)}, ${timeOf(event)}`;
  const line = (term, names, none) => [
    el("dt", { text: term }),
    el(
      "dd",
      {},
      names.size ? [...names].slice(0, MOST_NAMES).map((name) => [entryLink(name), " "]) : none,
      names.size > MOST_NAMES && `and ${names.size - MOST_NAMES} more`,
    ),
  ];
  fill(
    $("session"),
    el("h3", {}, "Session ", quoted(sessionName(row.index))),
    el(
      "dl",
      { class: "facts" },
      fact("From", when(row.first)),
      fact("To", when(row.last)),
      agent && fact("Agent", agent),
      line("Was given", influence.given, "no entry that is recorded"),
      line("Cited", influence.cited, "nothing"),
      line("Rated helpful", influence.helpful, "nothing"),
      line("Rated harmful", influence.harmful, "nothing"),
      line("Changed", influence.changed, "no entry of the playbook"),
      line("Took out", influence.left, "no entry"),
    ),
    el(
      "div",
      { class: "row" },
      button("Go to its first event", () => show({ event: row.first })),
      button("Show all events again", () => show({ session: -1 })),
    ),
    row.undoable
      ? commandBox("undo_session", { session: row.index }, "undo this session")
      : row.undo
        ? commandBox("undo_event", { event: row.undo }, `bring back what event ${eventName(row.undo)} undid`)
        : note("It has nothing to undo."),
    commandBox("without_session", { session: row.index }, "the playbook without this session"),
    commandBox("score_session", { session: row.index }, "the scores of this session"),
  );
}

/** Return what a session was given, cited, rated and changed, as sets of entries. */
function sessionInfluence(session) {
  const { history } = page,
    { film } = history;
  const names = ["given", "cited", "helpful", "harmful", "changed", "left"],
    result = Object.fromEntries(names.map((name) => [name, new Set()]));
  for (let m = 0; m < history.moments; m++) {
    if (film.authors[film.m_author[m]][1] - 1 !== session) continue;
    for (let e = history.firstOf(m); e <= history.last(m); e++) {
      const kind = history.kind(e),
        entry = history.entryOf(e);
      if (kind === "playbook.injected")
        for (const name of lifeNames()) if (history.isInjected(name, e)) result.given.add(name);
      if (kind === "point.cited") result.cited.add(entry);
      result[history.rating(e)]?.add(entry);
    }
    for (const change of history.changes(m)) {
      result.changed.add(change.name);
      if (META.statuses[change.before.status] === "kept" && META.statuses[change.after.status] !== "kept")
        result.left.add(change.name);
    }
  }
  return result;
}

function sessionRows() {
  const counts = ["events", "helpful", "harmful", "cited"],
    rows = page.panelRows.map((row) => [
      sessionName(row.index),
      agentOf(row.index),
      row.first,
      row.last,
      ...counts.map((name) => row[name]),
    ]);
  return [["session", "agent", "first_event", "last_event", ...counts], ...rows];
}
