// The film: the slider, its buttons, play, and the dialog that goes to a moment.

const PLAY_MS = 450;
let playing = 0;

/** Go to a moment by its place; -1 is before the first event. */
function goTo(moment) {
  const { history } = page;
  show({ event: history.last(Math.max(-1, Math.min(history.moments - 1, moment))) });
}

const step = (by) => goTo(page.moment + by);

/** Go to the next or previous event of the selected entry. */
function stepEntry(by) {
  if (view.entry < 0) {
    say("Select an entry first.");
    return;
  }
  const { history } = page,
    touched = history.eventsOf(view.entry);
  const at = by > 0 ? above(touched, view.event) : above(touched, history.firstOf(page.moment) - 1) - 1;
  if (at < 0 || at >= touched.length) say(by > 0 ? "No later event of this entry." : "No earlier event of this entry.");
  else show({ event: touched[at] });
}

/** Play on from here, or pause. */
function play(on = !playing) {
  clearInterval(playing);
  const { history } = page;
  if (on && page.moment >= history.moments - 1) goTo(-1);
  // A long history plays in some minutes: several moments in one step.
  const stride = Math.max(1, Math.round(history.moments / 600));
  playing = on ? setInterval(() => (page.moment >= history.moments - 1 ? play(false) : step(stride)), PLAY_MS) : 0;
  $("play").textContent = on ? "Pause" : "Play";
}

/** Compare each later moment with this one, or no longer. */
function compare() {
  if (!view.since && !view.event) say("Go to a moment first.");
  else show({ since: view.since ? 0 : view.event });
}

function drawFilm() {
  const { history, moment } = page,
    slider = $("slider");
  slider.max = history.moments;
  slider.value = moment + 1;
  const first = history.firstOf(moment),
    last = history.last(moment);
  const events = first === last ? `event ${eventName(last)}` : `events ${eventName(first)} to ${eventName(last)}`;
  const where =
    moment < 0 ? beforeWords() : `moment ${count(moment + 1)} of ${count(history.moments)}, ${events}`;
  slider.setAttribute("aria-valuetext", moment < 0 ? where : `${where}, ${clock(history.time(moment))}`);
  const parts = [el("b", { text: where[0].toUpperCase() + where.slice(1) })];
  if (moment >= 0) {
    const { rater } = history.author(moment);
    parts.push(
      " · ",
      el("time", { datetime: new Date(history.time(moment)).toISOString(), text: clock(history.time(moment)) }),
      ` ${ZONE} · by `,
      quoted(rater),
    );
  }
  const { kept, gone, helpful, harmful, pinned } = page.book;
  parts.push(
    span(
      "rest",
      ` · ${plural(kept.length, "entry", "entries")}, ${count(gone.length)} former, ${count(pinned)} pinned, ${count(helpful)} helpful, ${count(harmful)} harmful`,
    ),
  );
  fill($("moment"), parts);
  for (const id of ["first", "back"]) $(id).disabled = moment < 0;
  for (const id of ["next", "latest"]) $(id).disabled = moment >= history.moments - 1;
  $("compare").setAttribute("aria-pressed", String(view.since > 0));
  $("compare").disabled = !view.since && !view.event;
  $("compare").textContent = view.since ? `Compared with ${eventName(view.since)}` : "Compare";
  for (const id of ["touched-before", "touched-next"]) $(id).disabled = view.entry < 0;
}

/** Draw how much happened along the slider: helpful up, harmful down, and undos as lines. */
function drawPulse() {
  const canvas = $("pulse"),
    { width, height, pen } = sheet(canvas);
  const bins = Math.max(1, Math.floor(width / 3)),
    good = new Float32Array(bins),
    bad = new Float32Array(bins),
    other = new Float32Array(bins);
  const { history } = page;
  for (let m = 0, e = history.base + 1; m < history.moments; m++) {
    const bin = Math.min(bins - 1, Math.floor(((m + 1) / (history.moments + 1)) * bins));
    for (; e <= history.lasts[m]; e++) ({ helpful: good, harmful: bad }[history.counted(e)] ?? other)[bin]++;
  }
  const most = Math.max(1, ...good, ...bad, ...other);
  const middle = height * 0.6;
  for (let bin = 0; bin < bins; bin++) {
    const x = (bin / bins) * width;
    const bar = (value, name, up) => {
      if (!value) return;
      const tall = Math.max(1, Math.sqrt(value / most) * (up ? middle : height - middle));
      pen.fillStyle = colour(name);
      pen.fillRect(x, up ? middle - tall : middle, 2, tall);
    };
    bar(other[bin], "--line", true);
    bar(good[bin], "--good", true);
    bar(bad[bin], "--bad", false);
  }
}

// Go to a moment that somebody names, or give the command that shows a moment that the page does not have.

const DAY_MS = 86_400_000;
const UNITS_MS = { s: 1000, m: 60_000, h: 3_600_000, d: DAY_MS, w: 7 * DAY_MS };

function openGo() {
  $("go-where").value = "";
  refuseGo("");
  $("go-dialog").showModal();
}

/** Say why there is no such moment, with the command that shows it, if one does. */
function refuseGo(reason, line) {
  $("go-error").textContent = reason;
  fill($("go-command"), line ? [note("This command shows it:"), copyBox(line, "the command that shows it")] : null);
}

/** Go where the dialog says, or say why not. */
function takeGo(event) {
  if (event.submitter?.value !== "go") return;
  const { moment, reason, line } = findMoment($("go-where").value.trim());
  if (reason === undefined) goTo(moment);
  else {
    event.preventDefault();
    refuseGo(reason, line);
  }
}

/** Return `{moment}` for what `--at` takes, or `{reason, line}`: why there is none, and the command that shows it. */
function findMoment(words) {
  const { history } = page;
  if (/^(~|book:)?[0-9]{1,15}$/.test(words)) {
    const event = words.startsWith("~") ? history.events - Number(words.slice(1)) : history.labelled(words);
    if (event > 0 && event < history.base)
      return {
        reason: `The page begins with event ${eventName(history.base)}.`,
        line: commandLine("show", { event }),
      };
    return event < 0 || event > history.events
      ? { reason: `The history has ${plural(history.events, "event")}.` }
      : { moment: history.momentAt(event) };
  }
  if (words.startsWith("session:")) return aroundSession(words.slice(8));
  if (words.startsWith("git:"))
    return { reason: "The page has no commits.", line: commandLine("page", { at: quoteFor(words) }) };
  const age = /^([0-9]{1,9})([smhdw])$/.exec(words);
  const time = age ? Date.now() - Number(age[1]) * UNITS_MS[age[2]] : parseTime(words);
  if (Number.isFinite(time)) return { moment: asOf(time) };
  return {
    reason: "That is not a moment: give an event number, ~N, a time, an age such as 2d, or session:ID.",
  };
}

/** Return a time in the zone of the reader; a date is its first moment. */
function parseTime(words) {
  return Date.parse(/^\d{4}-\d\d-\d\d$/.test(words) ? `${words}T00:00` : words.replace(" ", "T"));
}

/** Return the last moment up to a time, also where the clock ran back. */
function asOf(time) {
  const { history } = page;
  let moment = -1;
  for (let m = 0; m < history.moments; m++) if (history.time(m) <= time) moment = m;
  return moment;
}

/** Return the moment before the first event of a session, or with `+` after its last. */
function aroundSession(words) {
  const { history } = page,
    ids = page.sessions?.ids,
    key = words.replace(/\+$/, "");
  if (!ids)
    return {
      reason: "The page was made without session ids.",
      line: commandLine("page", { at: quoteFor(`session:${words}`) }),
    };
  const rows = countSessions(),
    exact = rows.filter(({ index }) => ids[index] === key),
    found = exact.length || !key ? exact : rows.filter(({ index }) => ids[index].startsWith(key));
  if (found.length !== 1)
    return { reason: `${found.length ? "Several sessions have" : "No session has"} an id that begins with it.` };
  const [{ first, last }] = found;
  return { moment: words.endsWith("+") ? history.momentOf(last) : history.momentAt(first - 1) };
}
