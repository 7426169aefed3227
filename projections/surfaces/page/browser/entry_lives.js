// Life lines: each entry from its birth to its grave, along the slider's axis.

const colours = new Map();

/** Return the colour of a name in the present scheme; who changes the scheme clears `colours`. */
function colour(name) {
  if (!colours.has(name)) {
    const probe = $("live");
    probe.style.color = `var(${name})`;
    colours.set(name, getComputedStyle(probe).color);
  }
  return colours.get(name);
}

/** Make a canvas as large as it is shown, and return its size and a pen. */
function sheet(canvas) {
  const { clientWidth: width, clientHeight: height } = canvas,
    scale = devicePixelRatio || 1;
  Object.assign(canvas, { width: Math.round(width * scale), height: Math.round(height * scale) });
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  return { width, height, pen };
}

/** Return the entries that ever were in the playbook, in the order of their birth. */
function lifeNames() {
  const { timeline } = page;
  if (timeline.births) return timeline.births;
  const names = Array.from({ length: timeline.size }, (_, name) => name).filter((name) => timeline.turns(name).length);
  return (timeline.births = names.sort((one, other) => timeline.turns(one)[0] - timeline.turns(other)[0]));
}

/** Return the place of an event along a line. */
const axis = (event, width) => 8 + ((page.history.momentOf(event) + 1) / page.history.moments) * (width - 16);

function lifeRow({ name }, made) {
  const { history } = page,
    state = page.timeline.state(name, view.event),
    touched = history.eventsOf(name),
    status = state.status ? META.statuses[state.status] : "not yet",
    canvas = el("canvas", { "aria-hidden": "true", "data-life": name });
  made.className = "life";
  made.append(
    span(
      "clip",
      quoted(history.name(name)),
      span("note", ` ${status} `, el("br"), quoted(history.text(state).slice(0, 80))),
      unseen(`, ${state.helpful} helpful, ${state.harmful} harmful, ${plural(touched.length, "event")}`),
    ),
    canvas,
  );
  canvas.addEventListener("click", (event) => {
    event.stopPropagation();
    const { left, width } = canvas.getBoundingClientRect(),
      moment = Math.round(((event.clientX - left - 8) / (width - 16)) * history.moments - 1),
      clicked = history.last(Math.max(0, Math.min(history.moments - 1, moment)));
    show({ entry: name, event: nearestTouch(touched, clicked, width) });
  });
  page.lifeQueue.push([name, canvas]);
  drawLivesSoon();
}

/** Return the event of the entry next to a clicked one, where one is within six pixels. */
function nearestTouch(touched, event, width) {
  const k = above(touched, event),
    distance = (other) => Math.abs(axis(other, width) - axis(event, width));
  const [near] = [touched[k - 1], touched[k]].filter(Boolean).sort((one, other) => distance(one) - distance(other));
  return near && distance(near) < 6 ? near : event;
}

const drawLivesSoon = perFrame(() => {
  for (const [name, canvas] of page.lifeQueue.splice(0))
    if (canvas.isConnected && canvas.clientWidth) drawWholeLife(name, sheet(canvas));
});

/** Draw a life up to where the film is, and paler what comes later. */
function drawWholeLife(name, paper) {
  const { pen, width, height } = paper,
    at = axis(view.event, width);
  for (const [from, to, alpha] of [
    [0, at, 1],
    [at, width, 0.35],
  ]) {
    pen.save();
    pen.globalAlpha = alpha;
    pen.beginPath();
    pen.rect(from, 0, to - from, height);
    pen.clip();
    drawLife(name, paper);
    pen.restore();
  }
  pen.fillStyle = colour("--accent");
  pen.fillRect(Math.round(at) - 0.75, 0, 1.5, height);
}

/** What is drawn of an event: colour, place above or below the line, and the least distance to the one before. */
const TICKS = { helpful: ["--good", -11, 0.6], harmful: ["--bad", 2, 0.6], "point.cited": ["--cited", 0, 2] };

/** Draw one life: the line while it is in the playbook, ratings as ticks, injections below, citations as diamonds. */
function drawLife(name, { pen, width, height }) {
  const { history } = page,
    middle = height * 0.52,
    x = (event) => axis(event, width),
    lasts = {};
  // It is among those that sessions are given from every other turn on.
  drawTurns(history.injectionTurns(name), x, width - 8, (from, to) => {
    pen.fillStyle = colour("--shown");
    pen.fillRect(from, height - 4, Math.max(1.5, to - from), 2.5);
  });
  drawSpans(name, pen, x, width, middle);
  for (const event of history.eventsOf(name)) {
    const kind = history.counted(event) || history.kind(event),
      at = x(event);
    if (!TICKS[kind] || at - lasts[kind] < TICKS[kind][2]) continue;
    const [tone, top] = TICKS[kind];
    lasts[kind] = at;
    pen.fillStyle = colour(top && history.undone.has(event) ? "--line" : tone);
    if (top) pen.fillRect(at - 0.75, middle + top, 1.5, 9);
    else fillShape(pen, at, middle);
  }
}

/** Fill a diamond around a point. */
function fillShape(pen, x, y) {
  pen.beginPath();
  for (const [dx, dy] of [
    [0, -3.5],
    [3.5, 0],
    [0, 3.5],
    [-3.5, 0],
  ])
    pen.lineTo(x + dx, y + dy);
  pen.fill();
}

/** Draw from each first to each second of some turns; the last one may have no end. */
function drawTurns(turns, x, end, draw) {
  for (let at = 0; at < turns.length; at += 2) draw(x(turns[at]), at + 1 < turns.length ? x(turns[at + 1]) : end);
}

/** Draw when it was in the playbook, its births and its graves. */
function drawSpans(name, pen, x, width, middle) {
  const isKept = (event) => META.statuses[page.timeline.state(name, event).status] === "kept",
    turns = [];
  for (const event of page.timeline.turns(name)) if (isKept(event) === (turns.length % 2 === 0)) turns.push(event);
  drawTurns(turns, x, width - 8, (from, to) => {
    pen.fillStyle = colour("--edge");
    pen.beginPath();
    pen.arc(from, middle, 3.5, 0, 7);
    pen.fill();
    pen.fillRect(from, middle - 1, Math.max(1, to - from), 2);
  });
  pen.strokeStyle = colour("--text");
  pen.lineWidth = 1.5;
  pen.beginPath();
  for (const at of turns.filter((_, place) => place % 2).map(x))
    for (const side of [-1, 1]) {
      pen.moveTo(at - 3.5, middle - 3.5 * side);
      pen.lineTo(at + 3.5, middle + 3.5 * side);
    }
  pen.stroke();
}

function makeLives() {
  page.lifeQueue = [];
  const key = el(
    "p",
    { class: "key", "aria-label": "Key" },
    ["○ added", "✕ left"].map((text) => span(null, text)),
    span("good", "▏ helpful, above"),
    span("bad", "▏ harmful, below"),
    span("cited", "◆ cited"),
    span("shown", "▁ injected"),
    span(null, "pale: undone"),
  );
  makeList("Life lines", 42, lifeRow, { before: key });
}

function drawLives() {
  const rows = lifeNames()
    .filter((name) => page.found.entry(name))
    .map((name) => ({ name }));
  setPanelRows(rows);
  $("panel-note").textContent =
    `${plural(rows.length, "entry", "entries")} by birth, along the slider's axis. Click into a line to go there.`;
}
