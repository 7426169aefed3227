// Scores under the slider's axis: every series is a line, and two clicked days give the command for what changed between.

const CHART = { height: 170 };

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
  const shown = scores.series.filter(
    ({ group, id }) => group !== "component" || page.found.words.every((word) => id.includes(word)),
  );
  fill(
    $("charts"),
    ["overall", "composite", "component"].map((group) =>
      chart(
        group,
        shown.filter((one) => one.group === group),
        day,
      ),
    ),
    scoreTable(shown, day),
    leads(),
  );
}

/** Return a chart of some series: lines over the slider's axis. */
function chart(group, series, day) {
  if (!series.length) return null;
  const { scores } = page,
    width = Math.max(320, $("panel").clientWidth - 32),
    { height } = CHART;
  const x = (at) => dayPlace(at, width),
    y = (value) => height - 18 - (value / 100) * (height - 30);
  const box = svgElement("svg", {
    class: "chart",
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": `${group}: ${series.map((one) => `${one.label} ${lastValue(one, day)}`).join(", ")}`,
  });
  for (const grade of [0, 50, 60, 70, 100]) {
    box.append(svgElement("line", { x1: 8, x2: width - 8, y1: y(grade), y2: y(grade), class: "grid" }));
    const words = svgElement("text", { x: width - 8, y: y(grade) - 3, class: "grid-text" });
    words.textContent = String(grade);
    box.append(words);
  }
  series.forEach((one, i) => drawSeries(box, one, i, x, y, width));
  const cursor = (event, name) =>
    box.append(
      svgElement("line", { x1: eventPlace(event, width), x2: eventPlace(event, width), y1: 0, y2: height, class: name }),
    );
  if (view.since) cursor(view.since, "since");
  cursor(view.event, "cursor");
  box.addEventListener("click", (event) =>
    goToDay(((event.clientX - box.getBoundingClientRect().left) / box.getBoundingClientRect().width) * width, width),
  );
  return el(
    "figure",
    {},
    el(
      "figcaption",
      {},
      el("h3", { text: { overall: "Overall", composite: "Composites", component: "Components" }[group] }),
    ),
    box,
    series.length > 1
      ? el(
          "p",
          { class: "key" },
          series.map((one, i) => el("span", { class: `tone tone-${i % 6}` }, "● ", quoted(one.label))),
        )
      : null,
  );
}

/** Draw one series: its line, its points, fainter where little was measured, its baseline and its alerts. */
function drawSeries(box, one, i, x, y, width) {
  const { scores } = page,
    tone = `tone-${i % 6}`;
  let path = "",
    pen = false;
  one.values.forEach((value, at) => {
    if (value === null) pen = false;
    else {
      path += `${pen ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
      pen = true;
    }
  });
  box.append(svgElement("path", { d: path, class: `series ${tone}` }));
  one.values.forEach((value, at) => {
    if (value === null || scores.days.length > 400) return;
    const alert = scores.alerts.find(([day, id]) => day === at && id === one.id);
    const point = svgElement("circle", {
      cx: x(at),
      cy: y(value),
      r: alert ? 4.5 : 2.5,
      class: alert ? "alert" : `point ${tone}`,
      opacity: 0.3 + 0.7 * (one.coverage?.[at] ?? 1),
    });
    const title = svgElement("title", {});
    title.textContent = `${one.label} ${scores.days[at]}: ${value.toFixed(1)}${alert ? `, ${alert[2]}` : ""}${coverageWords(one, at)}`;
    point.append(title);
    box.append(point);
  });
  if (one.baseline !== null && one.baseline !== undefined)
    box.append(
      svgElement("line", { x1: 8, x2: width - 8, y1: y(one.baseline), y2: y(one.baseline), class: `baseline ${tone}` }),
    );
}

function coverageWords(one, at) {
  const share = one.coverage?.[at];
  return share === null || share === undefined || share > 0.995 ? "" : `, ${Math.round(share * 100)} % measured`;
}

function lastValue(one, day) {
  for (let at = day; at >= 0; at--) if (one.values[at] !== null) return one.values[at].toFixed(1);
  return "no data";
}

/** Go to the day next to a place in a chart; the one chosen before is the other end of the leads. */
function goToDay(place, width) {
  const { days, ends } = page.scores;
  let best = 0;
  days.forEach((_, at) => {
    if (Math.abs(dayPlace(at, width) - place) < Math.abs(dayPlace(best, width) - place)) best = at;
  });
  show({ event: ends[best], from: view.to, to: days[best] });
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
  const rows = series.map((one, i) => {
    const at = lastDay(one, day),
      alert = scores.alerts.find(([where, id]) => where === at && id === one.id);
    return el(
      "tr",
      {},
      el("th", { scope: "row" }, quoted(one.label)),
      el("td", { class: "number", text: lastValue(one, day) }),
      el("td", { text: at < 0 ? "" : scores.days[at] }),
      el("td", { text: at < 0 ? "" : coverageWords(one, at).slice(2) || "all measured" }),
      el("td", { class: "number", text: one.baseline ?? "" }),
      el("td", { class: alert ? "bad" : "", text: alert ? alert[2] : "" }),
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

/** Return two days to choose, and the command that lists what changed in the playbook before a drop between them. */
function leads() {
  const { days } = page.scores,
    [from, to] = [view.from, view.to].map((day) => (days.includes(day) ? day : "")).sort(),
    option = (key) => (value) => el("option", { value, text: value || "no day", selected: view[key] === value }),
    choose = (key) => (event) => show({ [key]: event.target.value }),
    line = from && from !== to && patternOf("blame")?.replace("{from}", from).replace("{to}", to);
  return [
    el("h3", { text: "Why a score fell" }),
    el(
      "p",
      { class: "row" },
      [["from", "From"], ["to", "To"]].map(([key, words]) =>
        el(
          "label",
          {},
          `${words} `,
          el("select", { id: `leads-${key}`, onchange: choose(key) }, ["", ...days].map(option(key))),
        ),
      ),
    ),
    line
      ? copyBox(line, "what changed before the drop")
      : el("p", { class: "note", text: "Choose two days, here or in a chart: a command lists what changed before the drop." }),
  ];
}

function lastDay(one, day) {
  for (let at = day; at >= 0; at--) if (one.values[at] !== null) return at;
  return -1;
}

function scoreRows() {
  const { scores } = page;
  if (!scores) return [["day", "score", "value", "coverage"]];
  return [
    ["day", "score", "value", "coverage"],
    ...scores.series.flatMap((one) =>
      one.values.flatMap((value, at) =>
        value === null ? [] : [[scores.days[at], one.id, value, one.coverage?.[at] ?? ""]],
      ),
    ),
  ];
}
