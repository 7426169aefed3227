// Sessions: what each was given, cited and rated, what came of it, and the command that undoes it.

/** Count what each session did, once. */
function countSessions() {
  if (page.tally) return page.tally;
  const { history } = page,
    { film } = history,
    size = META.counts.sessions,
    tally = [];
  for (let i = 0; i < size; i++)
    tally.push({ index: i, first: 0, last: 0, events: 0, helpful: 0, harmful: 0, cited: 0, undoable: 0, undo: 0 });
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

function sessionLink(index) {
  return el(
    "button",
    { class: "link", onclick: () => show({ tab: "sessions", session: index }) },
    quoted(sessionName(index)),
  );
}

/** Return the agent and the model of a session, where the page has them. */
function agentOf(index) {
  return page.sessions?.agents?.[index] ?? "";
}

function sessionRow(row, made) {
  const { history } = page;
  made.className = "session";
  made.append(
    el(
      "span",
      { class: "clip" },
      quoted(sessionName(row.index)),
      " ",
      el("span", { class: "faint" }, quoted(agentOf(row.index))),
    ),
    el("span", { class: "note clip", text: clock(history.time(history.momentOf(row.first))) }),
    el(
      "span",
      { class: "clip number" },
      el("span", { class: "good", text: `▲${row.helpful}` }),
      " ",
      el("span", { class: "bad", text: `▼${row.harmful}` }),
      " ",
      el("span", { class: "cited", text: `◆${row.cited}` }),
    ),
  );
}

function makeSessions() {
  const box = el("div", { class: "list", id: "entries" });
  fill($("panel"), el("p", { class: "note", id: "panel-note" }), box, el("div", { id: "session" }));
  page.panelRows = [];
  page.panelList = new VirtualList(box, {
    height: 34,
    label: "Sessions",
    row: (index, made) => sessionRow(page.panelRows[index], made),
    choose: (index) => show({ session: page.panelRows[index].index }),
  });
}

function drawSessions() {
  const rows = countSessions().filter(
    ({ index }) =>
      page.found.words.every((word) => authorText(page.history.film, 0, index + 1).includes(word)) ||
      index === view.session,
  );
  const selected = setPanelRows(
    rows,
    rows.findIndex(({ index }) => index === view.session),
  );
  $("panel-note").textContent = rows.length
    ? `${plural(rows.length, "session")}, latest first. Choosing one lists its events only.`
    : "No event names a session.";
  $("entries").classList.toggle("short", Boolean(selected));
  drawSession(selected);
}

/** Draw what one session did and what came of it. */
function drawSession(row) {
  const box = $("session");
  if (!row) {
    fill(box);
    return;
  }
  const { history } = page,
    influence = sessionInfluence(row.index);
  const entries = (names) => [...names].slice(0, 60).map((name) => [entryLink(name), " "]);
  const line = (term, names, none) => [
    el("dt", { text: term }),
    el("dd", {}, names.size ? [entries(names), names.size > 60 && `and ${names.size - 60} more`] : none),
  ];
  fill(
    box,
    el("h3", {}, "Session ", quoted(sessionName(row.index))),
    el(
      "dl",
      { class: "facts" },
      fact("From", `event ${eventName(row.first)}, ${clock(history.time(history.momentOf(row.first)))}`),
      fact("To", `event ${eventName(row.last)}, ${clock(history.time(history.momentOf(row.last)))}`),
      agentOf(row.index) ? fact("Agent", agentOf(row.index)) : [],
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
      el("button", { text: "Go to its first event", onclick: () => show({ event: row.first }) }),
      el("button", { text: "Show all events again", onclick: () => show({ session: -1 }) }),
    ),
    row.undoable
      ? commandBox("undo_session", { session: row.index }, "undo this session")
      : row.undo
        ? commandBox("undo_event", { event: row.undo }, `bring back what event ${eventName(row.undo)} undid`)
        : el("p", { class: "note", text: "It has nothing to undo." }),
    commandBox("without_session", { session: row.index }, "the playbook without this session"),
    commandBox("score_session", { session: row.index }, "the scores of this session"),
  );
}

/** Return what a session was given, cited, rated and changed, as sets of entries. */
function sessionInfluence(session) {
  const { history } = page,
    { film } = history;
  const result = {
    given: new Set(),
    cited: new Set(),
    helpful: new Set(),
    harmful: new Set(),
    changed: new Set(),
    left: new Set(),
  };
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
  const rows = page.panelRows.map((row) => [
    sessionName(row.index),
    agentOf(row.index),
    row.first,
    row.last,
    row.events,
    row.helpful,
    row.harmful,
    row.cited,
  ]);
  return [["session", "agent", "first_event", "last_event", "events", "helpful", "harmful", "cited"], ...rows];
}
