// Scores under the slider's axis: every series is a line, and a clicked day is gone to.

const CHART_HEIGHT = 170;
/** Group of scores → how it is titled. */
const GROUPS = { overall: "Overall", composite: "Composites", component: "Components" };

function makeScores() {
  fill($("panel"), el("p", { class: "note", id: "panel-note" }), el("div", { id: "charts" }));
}

/** Return the day that is over at an event, -1 before the first. */
const dayAt = (event) => above(page.scores.ends, event) - 1;

function drawScores() {
  const { scores } = page;
  if (!scores) {
    $("panel-note").textContent = "No scores: the ledger has no measurements, scoring is off, or the page was made without them.";
    fill($("charts"));
    return;
  }
  const day = dayAt(view.event);
  $("panel-note").textContent =
    `${plural(scores.days.length, "day")} with data, ${scores.days[0]} to ${scores.days.at(-1)}. Choose a day to go there.${
      isByTime() ? " Several days have no event of their own, so the charts go by time and not by event." : ""
    }`;
  const isFound = ({ group, id }) => group !== "component" || page.found.words.every((word) => id.includes(word)),
    shown = scores.series.filter(isFound),
    members = (group) => shown.filter((row) => row.group === group);
  fill(
    $("charts"),
    Object.keys(GROUPS).map((group) => chart(group, members(group), day)),
    scoreTable(shown, day),
  );
}

/** Return a chart of some series: lines over the slider's axis. */
function chart(group, series, day) {
  if (!series.length) return null;
  const width = Math.max(320, $("panel").clientWidth - 32),
    height = CHART_HEIGHT;
  const x = (at) => dayPlace(at, width),
    y = (value) => height - 18 - (value / 100) * (height - 30);
  const box = svgElement("svg", {
    class: "chart",
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": `${group}: ${series.map((row) => `${row.label} ${lastValue(row, day)}`).join(", ")}`,
  });
  for (const grade of [0, 50, 60, 70, 100]) {
    level(box, y(grade), width, "grid");
    box.append(svgElement("text", { x: width - 8, y: y(grade) - 3, class: "grid-text" }, String(grade)));
  }
  series.forEach((row, i) => drawSeries(box, row, i, x, y, width));
  const cursor = (event, name) => {
    const at = eventPlace(event, width);
    box.append(svgElement("line", { x1: at, x2: at, y1: 0, y2: height, class: name }));
  };
  if (view.since) cursor(view.since, "since");
  cursor(view.event, "cursor");
  box.addEventListener("click", (event) => {
    const shown = box.getBoundingClientRect();
    goToDay(((event.clientX - shown.left) / shown.width) * width, width);
  });
  const key = series.map((row, i) => span(`tone tone-${i % 6}`, "● ", quoted(row.label)));
  return el(
    "figure",
    {},
    el("figcaption", {}, el("h3", { text: GROUPS[group] })),
    box,
    key.length > 1 ? el("p", { class: "key" }, key) : null,
  );
}

/** Draw a level line. */
const level = (box, y, width, name) =>
  box.append(svgElement("line", { x1: 8, x2: width - 8, y1: y, y2: y, class: name }));

/** Draw one series: its line, its points, fainter where little was measured, its baseline and its alerts. */
function drawSeries(box, row, i, x, y, width) {
  const { scores } = page,
    tone = `tone-${i % 6}`;
  // Between two days without data nothing is drawn.
  const points = row.values.map((value, at) => {
    const command = at && row.values[at - 1] !== null ? "L" : "M";
    return value === null ? "" : `${command}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
  });
  box.append(svgElement("path", { d: points.join(""), class: `series ${tone}` }));
  row.values.forEach((value, at) => {
    if (value === null || scores.days.length > 400) return;
    const alert = alertOn(row, at);
    const point = svgElement("circle", {
      cx: x(at),
      cy: y(value),
      r: alert ? 4.5 : 2.5,
      class: alert ? "alert" : `point ${tone}`,
      opacity: 0.3 + 0.7 * (row.coverage[at] ?? 1),
    });
    const words = `${value.toFixed(1)}${alert ? `, ${alert}` : ""}${coverageWords(row, at)}`;
    point.append(svgElement("title", {}, `${row.label} ${scores.days[at]}: ${words}`));
    box.append(point);
  });
  if (row.baseline !== null) level(box, y(row.baseline), width, `baseline ${tone}`);
}

/** Return the level of the alert of a series on a day, undefined without one. */
const alertOn = (row, at) => page.scores.alerts.find(([day, id]) => day === at && id === row.id)?.[2];

function coverageWords(row, at) {
  const share = row.coverage[at];
  return share === null || share > 0.995 ? "" : `, ${Math.round(share * 100)} % measured`;
}

/** Return the last day up to one with a value, -1 without. */
const lastDay = (row, day) => row.values.findLastIndex((value, at) => at <= day && value !== null);

const lastValue = (row, day) => row.values[lastDay(row, day)]?.toFixed(1) ?? "no data";

/** Go to the day next to a place in a chart. */
function goToDay(place, width) {
  const { days, ends } = page.scores;
  let best = 0;
  days.forEach((_, at) => {
    if (Math.abs(dayPlace(at, width) - place) < Math.abs(dayPlace(best, width) - place)) best = at;
  });
  show({ event: ends[best] });
}

/** Say whether days share a place on the slider's axis: measurements that were recorded long after their day. */
const isByTime = () => new Set(page.scores.ends).size < page.scores.ends.length;

/** Return where a day is in a chart. */
function dayPlace(at, width) {
  const { days, ends } = page.scores;
  return isByTime() ? timePlace(Date.parse(days[at]) + DAY_MS, width) : axis(ends[at], width);
}

/** Return where an event is in a chart. */
function eventPlace(event, width) {
  const moment = page.history.momentOf(event);
  return isByTime() && moment >= 0 ? timePlace(page.history.time(moment), width) : axis(event, width);
}

/** Return where a time is between the first and the last one that a chart has. */
function timePlace(time, width) {
  const { days } = page.scores,
    { history } = page;
  const first = Math.min(Date.parse(days[0]), history.time(0)),
    last = Math.max(Date.parse(days.at(-1)) + DAY_MS, history.time(history.moments - 1));
  return 8 + (Math.max(0, Math.min(last, time) - first) / (last - first)) * (width - 16);
}

function scoreTable(series, day) {
  const { scores } = page;
  const rows = series.map((row) => {
    const at = lastDay(row, day),
      alert = alertOn(row, at);
    return el(
      "tr",
      {},
      el("th", { scope: "row" }, quoted(row.label)),
      el("td", { class: "number", text: lastValue(row, day) }),
      el("td", { text: at < 0 ? "" : scores.days[at] }),
      el("td", { text: at < 0 ? "" : coverageWords(row, at).slice(2) || "all measured" }),
      el("td", { class: "number", text: row.baseline ?? "" }),
      el("td", { class: alert && "bad", text: alert ?? "" }),
    );
  });
  const heads = ["Score", "Value", "Day", "Coverage", "Baseline", "Alert"].map((text) =>
    el("th", { scope: "col", text }),
  );
  return el(
    "div",
    { class: "wide", tabindex: 0, role: "group", "aria-label": "Scores as a table" },
    el("table", {}, el("thead", {}, el("tr", {}, heads)), el("tbody", {}, rows)),
  );
}

function scoreRows() {
  const { days, series } = page.scores ?? { series: [] },
    rows = series.flatMap((row) => row.values.map((value, at) => [days[at], row.id, value, row.coverage[at] ?? ""]));
  return [["day", "score", "value", "coverage"], ...rows.filter(([, , value]) => value !== null)];
}
