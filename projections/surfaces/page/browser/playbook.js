// The playbook at a moment, and the former entries.

const ONLY_REAL = "only in the real playbook";

/** Return the entries to show, each with what makes it stand out. */
function playbookRows() {
  const { book, ownBook, changes, found } = page;
  const own = view.policy ? new Set(ownBook.kept) : null,
    kept = new Set(book.kept);
  const rows = [];
  for (const change of changes)
    if (META.statuses[change.before.status] === "kept" && !kept.has(change.name))
      rows.push({ name: change.name, left: "left in this moment" });
  if (own) for (const name of ownBook.kept) if (!kept.has(name)) rows.push({ name, left: ONLY_REAL });
  for (const name of book.kept) rows.push({ name, only: own && !own.has(name) ? "only under this policy" : "" });
  return rows.filter(({ name }) => found.entry(name));
}

function entryRow(row, made) {
  const { history, timeline } = page,
    state = timeline.state(row.name, view.event);
  const change = page.changeOf.get(row.name),
    text = history.text(state);
  made.className = ["entry", change && "changed", change && isWorse(change) && "worse", row.left && "left"]
    .filter(Boolean)
    .join(" ");
  const tags = [
    row.left,
    row.only,
    state.flags & PINNED && "pinned",
    change && !row.left && changeWords(change),
  ].filter((tag, i, all) => tag && all.indexOf(tag) === i);
  made.title = text.slice(0, 600);
  made.append(
    el("span", { class: "name clip" }, quoted(history.name(row.name))),
    el(
      "span",
      { class: "words" },
      tags.map((tag) => [el("span", { class: "tag faint" }, quoted(tag)), " "]),
      quoted(text.slice(0, 400)),
    ),
    countsOf(state),
    trustBar(state),
  );
}

/** Return the counts, with their words for a screen reader. */
function countsOf({ helpful, harmful }) {
  const unseen = (text) => el("span", { class: "unseen", text });
  return el(
    "span",
    { class: "counts number" },
    el("span", { class: "good" }, `+${helpful}`, unseen(" helpful")),
    " ",
    el("span", { class: "bad" }, `−${harmful}`, unseen(" harmful")),
  );
}

/** Return the 95 % interval of the share of helpful ratings as a bar; Python computed it. */
function trustBar(state) {
  const svg = svgElement("svg", {
      class: "trust",
      viewBox: "0 0 1000 80",
      preserveAspectRatio: "none",
      "aria-hidden": "true",
    });
  svg.append(svgElement("rect", { x: 0, y: 34, width: 1000, height: 12, class: "bar-ground" }));
  if (state.helpful + state.harmful) {
    const [low, high] = state.trust;
    svg.append(
      svgElement("rect", {
        x: low,
        y: 10,
        width: Math.max(20, high - low),
        height: 60,
        class: high < 500 ? "bar-bad" : low > 500 ? "bar-good" : "bar-open",
      }),
    );
  }
  svg.append(svgElement("rect", { x: 497, y: 0, width: 6, height: 80, class: "bar-middle" }));
  return svg;
}

function svgElement(tag, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

/** Make a list of entries in the panel, of which the selected one is marked. */
function entryList(label, height, rows, row, note) {
  const box = el("div", { class: "list", id: "entries" });
  fill($("panel"), el("p", { class: "note", id: "panel-note" }), note, box);
  page.panelRows = rows;
  page.panelList = new VirtualList(box, {
    height,
    label,
    row: (index, made) => row(page.panelRows[index], made),
    choose: (index) => {
      show({ entry: page.panelRows[index].name });
      // On a narrow screen the story is below everything else.
      if (matchMedia("(width < 760px)").matches) $("why").scrollIntoView();
    },
  });
}

function makePlaybook() {
  entryList("Entries of the playbook", 46, [], entryRow, null);
}

function drawPlaybook() {
  const rows = playbookRows();
  setPanelRows(rows);
  const { kept } = page.book,
    policy = page.history.policies.find(({ stream: name }) => name === view.policy);
  const gone = rows.filter(({ left }) => left).length,
    differ = rows.filter(({ left, only }) => only || left === ONLY_REAL).length;
  const filtered = rows.length - gone < kept.length ? `${count(rows.length - gone)} of ` : "";
  fill(
    $("panel-note"),
    `${filtered}${plural(kept.length, "entry", "entries")} as of event ${eventName(view.event)}${view.policy ? "" : `, pruned by the rule ${META.rule}`}. The bar is the 95 % interval of the helpful share, the mark in it one half.`,
    view.policy &&
      el(
        "p",
        {},
        "What if: ",
        quoted(`${policy.about}.`),
        policy.rule ? [" Rule: ", el("code", { text: policy.rule }), "."] : null,
        ` ${differ ? plural(differ, "entry", "entries") : "No entry"} of this moment ${differ === 1 ? "differs" : "differ"}.`,
      ),
  );
}

/** Show rows in the panel; the selected entry or session is marked. Return its row. */
function setPanelRows(rows, selected = rows.findIndex(({ name }) => name === view.entry)) {
  page.panelRows = rows;
  const { panelList } = page;
  if (panelList.length !== rows.length || page.anew) panelList.set(rows.length, selected);
  else panelList.select(selected);
  return rows[selected];
}

/** Return how an entry left the playbook, and with which counts. */
function leftWords({ status, into, harmful, helpful }) {
  const other = into ? ` into ${page.history.name(into - 1)}` : "";
  return `${META.statuses[status]}${other}: ${harmful} harmful, ${helpful} helpful`;
}

function graveRow({ name }, made) {
  const { history, timeline } = page,
    state = timeline.state(name, view.event);
  made.className = ["entry", page.changeOf.has(name) && "changed worse"].filter(Boolean).join(" ");
  made.append(
    el("span", { class: "name clip" }, quoted(history.name(name))),
    el(
      "span",
      { class: "words" },
      el("span", { class: "tag faint" }, quoted(leftWords(state))),
      " ",
      quoted(history.text(state).slice(0, 400)),
    ),
    countsOf(state),
    trustBar(state),
  );
}

function makeFormer() {
  entryList("Entries that left the playbook", 46, [], graveRow, null);
}

function drawFormer() {
  const rows = page.book.gone.map((name) => ({ name, since: page.timeline.state(name, view.event).since }));
  rows.sort((one, other) => other.since - one.since);
  const matching = rows.filter(({ name }) => page.found.entry(name));
  setPanelRows(matching);
  fill(
    $("panel-note"),
    matching.length
      ? `${plural(matching.length, "entry", "entries")} left the playbook by event ${eventName(view.event)}, latest first.`
      : rows.length
        ? "No entry that left matches the search."
        : `No entry had left the playbook by event ${eventName(view.event)}.`,
  );
}
