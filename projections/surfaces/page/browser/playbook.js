// The playbook at a moment, and the former entries.

/** Return the entries to show, each with what makes it stand out. */
function playbookRows() {
  const { book, changes, found } = page,
    kept = new Set(book.kept),
    left = changes.filter(({ name, before }) => META.statuses[before.status] === "kept" && !kept.has(name));
  return [
    ...left.map(({ name }) => ({ name, left: "left in this moment" })),
    ...book.kept.map((name) => ({ name })),
  ].filter(({ name }) => found.entry(name));
}

/** Fill the row of an entry; a former one has how it left for its only tag. */
function entryRow(row, made) {
  const { history, timeline } = page,
    state = timeline.state(row.name, view.event),
    change = page.changeOf.get(row.name),
    text = history.text(state),
    tags = row.isFormer
      ? [leftWords(state)]
      : [row.left, state.flags & PINNED && "pinned", change && !row.left && changeWords(change)];
  const isBad = change && (row.isFormer || isWorse(change));
  made.className = ["entry", change && "changed", isBad && "worse", row.left && "left"].filter(Boolean).join(" ");
  made.title = text.slice(0, 600);
  made.append(
    span("name clip", quoted(history.name(row.name))),
    span(
      "words",
      [...new Set(tags.filter(Boolean))].map((tag) => [span("tag faint", quoted(tag)), " "]),
      quoted(text.slice(0, 400)),
    ),
    span(
      "counts number",
      span("good", `+${state.helpful}`, unseen(" helpful")),
      " ",
      span("bad", `−${state.harmful}`, unseen(" harmful")),
    ),
    trustBar(state),
  );
}

/** Return the 95 % interval of the share of helpful ratings as a bar; Python computed it. */
function trustBar({ helpful, harmful, trust: [low, high] }) {
  const svg = svgElement("svg", {
    class: "trust",
    viewBox: "0 0 1000 80",
    preserveAspectRatio: "none",
    "aria-hidden": "true",
  });
  const bar = (x, y, width, height, name) => svg.append(svgElement("rect", { x, y, width, height, class: name }));
  bar(0, 34, 1000, 12, "bar-ground");
  if (helpful + harmful)
    bar(low, 10, Math.max(20, high - low), 60, high < 500 ? "bar-bad" : low > 500 ? "bar-good" : "bar-open");
  bar(497, 0, 6, 80, "bar-middle");
  return svg;
}

function svgElement(tag, attributes, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.textContent = text;
  return made;
}

/** Go to the story of a chosen entry. */
function chooseEntry({ name }) {
  show({ entry: name });
  // On a narrow screen the story is below everything else.
  if (matchMedia("(width < 760px)").matches) $("why").scrollIntoView();
}

/** Make a list in the panel, with elements above and below it. */
function makeList(label, height, row, { before = null, after = null, choose = chooseEntry } = {}) {
  const box = el("div", { class: "list", id: "entries" });
  fill($("panel"), el("p", { class: "note", id: "panel-note" }), before, box, after);
  page.panelRows = [];
  page.panelList = new VirtualList(box, {
    height,
    label,
    row: (index, made) => row(page.panelRows[index], made),
    choose: (index) => choose(page.panelRows[index]),
  });
}

function drawPlaybook() {
  const rows = playbookRows(),
    { kept } = page.book,
    gone = rows.filter(({ left }) => left).length,
    filtered = rows.length - gone < kept.length ? `${count(rows.length - gone)} of ` : "";
  setPanelRows(rows);
  $("panel-note").textContent =
    `${filtered}${plural(kept.length, "entry", "entries")} as of event ${momentName(view.event)}, pruned by the rule ${META.rule}. The bar is the 95 % interval of the helpful share, the mark in it one half.`;
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

function drawFormer() {
  const since = (name) => page.timeline.state(name, view.event).since,
    former = [...page.book.gone].sort((one, other) => since(other) - since(one)),
    rows = former.filter((name) => page.found.entry(name)).map((name) => ({ name, isFormer: true }));
  setPanelRows(rows);
  $("panel-note").textContent = rows.length
    ? `${plural(rows.length, "entry", "entries")} left the playbook by event ${momentName(view.event)}, latest first.`
    : former.length
      ? "No entry that left matches the search."
      : `No entry had left the playbook by event ${momentName(view.event)}.`;
}
