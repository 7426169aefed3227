// The leads between two days: the drops of each score, and what changed in the playbook before each, as Python found them.

/** Return the drops between the two chosen days, with their leads. */
function leads() {
  const { days } = page.scores;
  const [from, to] = [view.from, view.to].map((day) => (days.includes(day) ? day : "")).sort();
  const box = [
    el("h3", { id: "leads-title", text: from ? `Leads from ${from} to ${to}` : "Leads between two days" }),
    el("p", { class: "row" }, daySelect("from", "From"), daySelect("to", "To")),
  ];
  if (!from || from === to)
    return [...box, el("p", { class: "note", text: "Choose two days, here or in a chart." })];
  const ends = [days.indexOf(from), days.indexOf(to)];
  return [...box, el("div", { id: "leads" }, findDrops(ends)), commandsBetween(from, to, ends)];
}

function daySelect(key, words) {
  const option = (value) => el("option", { value, text: value || "no day", selected: view[key] === value });
  return el(
    "label",
    {},
    `${words} `,
    el(
      "select",
      { id: `leads-${key}`, onchange: (event) => show({ [key]: event.target.value }) },
      ["", ...page.scores.days].map(option),
    ),
  );
}

/** Return the drops between two days, each with its leads, the newest first, or why the page has none of them. */
function findDrops([from, to]) {
  const { apart, drops, spans, leads: rows, series } = page.scores;
  if (to - from > apart)
    return el("p", {
      class: "note",
      text: apart
        ? `Computed for this page were the leads between days with data that are at most ${apart} apart; a command below lists these.`
        : "The history is too long for the page to have leads; a command below lists these.",
    });
  const found = drops.filter((drop) => drop.from === from && drop.to === to);
  if (!found.length)
    return el("p", { class: "note", text: "No score dropped between these days, of those that both have." });
  return [
    found.map((drop) => [
      el(
        "h4",
        {},
        quoted(series.find(({ id }) => id === drop.score)?.label ?? drop.score),
        `: ${drop.before} → ${drop.after}`,
      ),
      drop.enough
        ? [
            el("p", { class: "note" }, "Last as good as before: ", scored(drop.good), "; then worst: ", scored(drop.bad)),
            leadList(spans[drop.span].map((number) => rows[number])),
          ]
        : el("p", { class: "note", text: "Too little of it was measured to explain the drop." }),
    ]),
    el("p", { class: "note", text: "Each is a lead and not a proof: that it came first does not make it the cause." }),
  ];
}

function scored({ at, score, session }) {
  return [session ? [quoted(session), ", "] : null, `${clock(Date.parse(at))}, with ${score}`];
}

function leadList(rows) {
  if (!rows.length)
    return el("p", {
      class: "note",
      text: "Between these nothing changed in the playbook: the cause of the drop is elsewhere.",
    });
  const names = (words, list) =>
    list.length
      ? [` ${words} `, list.slice(0, MOST_PARTS).map((name) => [entryLink(page.names.get(name)), " "])]
      : null;
  return [
    el(
      "ul",
      { class: "steps" },
      rows
        .slice(0, MOST_PARTS)
        .map(([event, , came, went, changed]) =>
          el(
            "li",
            {},
            eventLink(event),
            el("span", { class: "what" }, quoted(page.history.words(event)), names("in:", came), names("out:", went), names("concerns:", changed)),
          ),
        ),
    ),
    rows.length > MOST_PARTS ? el("p", { class: "note", text: `and ${count(rows.length - MOST_PARTS)} older` }) : null,
  ];
}

/** Return the commands that list the leads between two days, of each score that both have. */
function commandsBetween(from, to, ends) {
  const lines = page.scores.series
    .filter(({ group, coverage }) => group !== "composite" && ends.every((at) => coverage[at] !== null))
    .map(({ id, label, group }) => {
      const pattern = META.commands?.[group === "overall" ? "blame_overall" : "blame_between"];
      return pattern && PLAIN.test(id)
        ? copyBox(pattern.replace("{score}", id).replace("{from}", from).replace("{to}", to), `the leads of ${label}`)
        : null;
    });
  return [el("h4", { text: "As commands" }), lines];
}
