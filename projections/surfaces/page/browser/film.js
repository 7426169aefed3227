// The film: the slider, its buttons, and play.

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
    el(
      "span",
      { class: "rest" },
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
    { width, height, pen, colour } = sheet(canvas);
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
