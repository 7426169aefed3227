// Life lines: each entry from its birth to its grave, along the slider's axis.

/** Make a canvas as large as it is shown, and return a pen, its size, and the colours of the scheme. */
function sheet(canvas) {
  return { ...plainSheet(canvas), colour: schemeColours(canvas) };
}

/** Return a function that gives the colour of a name in the present scheme. */
function schemeColours(element) {
  const known = new Map(),
    probe = el("span", { class: "unseen", "aria-hidden": "true" });
  element.after(probe);
  for (const name of [
    "--good",
    "--bad",
    "--line",
    "--edge",
    "--faint",
    "--shown",
    "--cited",
    "--text",
    "--sheet",
    "--accent",
  ]) {
    probe.style.color = `var(${name})`;
    known.set(name, getComputedStyle(probe).color);
  }
  probe.remove();
  return (name) => known.get(name);
}

/** Return the entries that ever were in the playbook, in the order of their birth. */
function lifeNames() {
  const { timeline } = page;
  if (timeline.births) return timeline.births;
  const names = [];
  for (let name = 0; name < timeline.size; name++) if (timeline.turns(name).length) names.push(name);
  return (timeline.births = names.sort((one, other) => timeline.turns(one)[0] - timeline.turns(other)[0]));
}

/** Return the places of an event along a line. */
const axis = (event, width) => 8 + ((page.history.momentOf(event) + 1) / page.history.moments) * (width - 16);

function lifeRow({ name }, made) {
  const { history } = page,
    state = page.timeline.state(name, view.event),
    touched = history.eventsOf(name);
  made.className = "life";
  const canvas = el("canvas", { "aria-hidden": "true", "data-life": name });
  made.append(
    el(
      "span",
      { class: "clip" },
      quoted(history.name(name)),
      el("span", { class: "note" }, ` ${state.status ? META.statuses[state.status] : "not yet"} `, el("br"), quoted(history.text(state).slice(0, 80))),
      el("span", {
        class: "unseen",
        text: `, ${state.helpful} helpful, ${state.harmful} harmful, ${plural(touched.length, "event")}`,
      }),
    ),
    canvas,
  );
  canvas.addEventListener("click", (event) => {
    event.stopPropagation();
    const box = canvas.getBoundingClientRect(),
      at = ((event.clientX - box.left - 8) / (box.width - 16)) * history.moments - 1;
    show({
      entry: name,
      event: nearestTouch(touched, history.last(Math.max(0, Math.min(history.moments - 1, Math.round(at)))), box.width),
    });
  });
  page.lifeQueue.push([name, canvas]);
  drawLivesSoon();
}

/** Return the event of the entry next to a clicked one, where one is within six pixels. */
function nearestTouch(touched, event, width) {
  const k = above(touched, event),
    near = [touched[k - 1], touched[k]]
      .filter(Boolean)
      .sort((one, other) => Math.abs(one - event) - Math.abs(other - event))[0];
  return near && Math.abs(axis(near, width) - axis(event, width)) < 6 ? near : event;
}

const drawLivesSoon = perFrame(() => {
  const queue = page.lifeQueue.splice(0);
  let colour = null;
  for (const [name, canvas] of queue) {
    if (!canvas.isConnected || !canvas.clientWidth) continue;
    const { width, height, pen, colour: made } = colour ? { ...plainSheet(canvas), colour } : sheet(canvas);
    colour = made;
    drawWholeLife(name, pen, width, height, colour);
  }
});

function plainSheet(canvas) {
  const { clientWidth: width, clientHeight: height } = canvas,
    scale = devicePixelRatio || 1;
  Object.assign(canvas, { width: Math.round(width * scale), height: Math.round(height * scale) });
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  return { width, height, pen };
}

/** Draw a life up to where the film is, and paler what comes later. */
function drawWholeLife(name, pen, width, height, colour) {
  const at = axis(view.event, width);
  for (const [from, to, alpha] of [
    [0, at, 1],
    [at, width, 0.35],
  ]) {
    pen.save();
    pen.globalAlpha = alpha;
    pen.beginPath();
    pen.rect(from, 0, to - from, height);
    pen.clip();
    drawLife(name, pen, width, height, colour);
    pen.restore();
  }
  pen.fillStyle = colour("--accent");
  pen.fillRect(Math.round(at) - 0.75, 0, 1.5, height);
}

/** Draw one life: the line while it is in the playbook, ratings as ticks, injections below, citations as diamonds. */
function drawLife(name, pen, width, height, colour) {
  const { history } = page,
    middle = height * 0.52;
  const x = (event) => axis(event, width);
  drawInjections(name, pen, x, width, height, colour);
  drawSpans(name, pen, x, width, middle, colour);
  let lastGood = -9,
    lastBad = -9,
    lastCited = -9;
  for (const event of history.eventsOf(name)) {
    const counted = history.counted(event),
      at = x(event),
      undone = history.undone.has(event);
    if (counted === "helpful" && at - lastGood >= 0.6) {
      pen.fillStyle = undone ? colour("--line") : colour("--good");
      pen.fillRect(at - 0.75, middle - 11, 1.5, 9);
      lastGood = at;
    } else if (counted === "harmful" && at - lastBad >= 0.6) {
      pen.fillStyle = undone ? colour("--line") : colour("--bad");
      pen.fillRect(at - 0.75, middle + 2, 1.5, 9);
      lastBad = at;
    } else if (history.kind(event) === "point.cited" && at - lastCited >= 2) {
      pen.fillStyle = colour("--cited");
      pen.beginPath();
      for (const [dx, dy] of [
        [0, -3.5],
        [3.5, 0],
        [0, 3.5],
        [-3.5, 0],
      ])
        pen.lineTo(at + dx, middle + dy);
      pen.fill();
      lastCited = at;
    }
  }
}

/** Draw when it was in the playbook, its births and its graves. */
function drawSpans(name, pen, x, width, middle, colour) {
  const { timeline } = page;
  let born = -1;
  const line = (from, to) => {
    pen.fillStyle = colour("--edge");
    pen.fillRect(from, middle - 1, Math.max(1, to - from), 2);
  };
  for (const event of timeline.turns(name)) {
    const kept = META.statuses[timeline.state(name, event).status] === "kept",
      at = x(event);
    if (kept && born < 0) {
      born = at;
      pen.fillStyle = colour("--edge");
      pen.beginPath();
      pen.arc(at, middle, 3.5, 0, 7);
      pen.fill();
    } else if (!kept && born >= 0) {
      line(born, at);
      born = -1;
      pen.strokeStyle = colour("--text");
      pen.lineWidth = 1.5;
      pen.beginPath();
      for (const side of [-1, 1]) {
        pen.moveTo(at - 3.5, middle - 3.5 * side);
        pen.lineTo(at + 3.5, middle + 3.5 * side);
      }
      pen.stroke();
    }
  }
  if (born >= 0) line(born, width - 8);
}

/** Draw from when to when the entry was among those that sessions were given: it is named where that turned. */
function drawInjections(name, pen, x, width, height, colour) {
  const { history } = page;
  pen.fillStyle = colour("--shown");
  let from = -1;
  for (const event of history.injectionTurns(name)) {
    if (from < 0) from = x(event);
    else {
      pen.fillRect(from, height - 4, Math.max(1.5, x(event) - from), 2.5);
      from = -1;
    }
  }
  if (from >= 0) pen.fillRect(from, height - 4, width - 8 - from, 2.5);
}

function makeLives() {
  page.lifeQueue = [];
  const key = el(
    "p",
    { class: "key", "aria-label": "Key" },
    ["○ added", "✕ left"].map((text) => el("span", { text })),
    el("span", { class: "good", text: "▏ helpful, above" }),
    el("span", { class: "bad", text: "▏ harmful, below" }),
    el("span", { class: "cited", text: "◆ cited" }),
    el("span", { class: "shown", text: "▁ injected" }),
    el("span", { text: "pale: undone" }),
  );
  entryList("Life lines", 42, [], lifeRow, key);
}

function drawLives() {
  const rows = lifeNames()
    .filter((name) => page.found.entry(name))
    .map((name) => ({ name }));
  setPanelRows(rows);
  $("panel-note").textContent =
    `${plural(rows.length, "entry", "entries")} by birth, along the slider's axis. Click into a line to go there.`;
}
