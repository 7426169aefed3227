// Why: the story of an entry as Python tells it, its events, and the commands about it.

const MOST_STEPS = 120;

function drawStory() {
  const { history } = page,
    box = $("why");
  if (view.entry < 0) {
    fill(
      box,
      el("h2", { id: "why-title", text: "Why" }),
      el("p", {
        class: "note",
        text: "Select an entry or an event of one: its story is told here, with the events that decided it.",
      }),
    );
    return;
  }
  const name = view.entry,
    state = page.timeline.state(name, view.event),
    story = page.storyOf?.get(name);
  fill(
    box,
    el("h2", { id: "why-title" }, "Why ", quoted(history.name(name))),
    state.status > 1 && el("p", {}, el("span", { class: "tag bad" }, quoted(leftWords(state)))),
    storyParts(story),
    el(
      "p",
      { class: "quote" },
      quoted(
        history.text(state) || (META.texts ? "It has no text at this moment." : "The page was made without texts."),
      ),
    ),
    el(
      "dl",
      { class: "facts" },
      fact(
        `At event ${eventName(view.event)}`,
        state.status
          ? META.statuses[state.status] + (state.into ? ` into ${history.name(state.into - 1)}` : "")
          : "not yet in the playbook",
      ),
      fact("Ratings", `${plural(state.helpful, "helpful", "helpful")}, ${state.harmful} harmful`),
      state.helpful + state.harmful
        ? fact("Helpful share", `${percent(state.trust[0])} to ${percent(state.trust[1])} (95 %)`)
        : [],
      state.flags & PINNED ? fact("Pinned", "no update prunes it") : [],
      state.flags & RESTORED ? fact("Restored", "only a further harmful rating can prune it") : [],
    ),
    relatives(story),
    el("h3", { text: "Its events" }),
    stepList(name),
    el("h3", { text: "As commands" }),
    ["why_at", "log_entry"].map((kind) => commandBox(kind, {}, `${kind.split("_")[0]} ${history.name(name)}`)),
  );
}

const percent = (thousandths) => `${Math.round(thousandths / 10)} %`;
const fact = (term, text) => [el("dt", { text: term }), el("dd", {}, quoted(text))];

function storyParts(story) {
  const { stories } = page;
  if (!story)
    return el("p", {
      class: "note",
      text: stories.omitted
        ? `Only the entries that changed last have a story here, and none in a long history; ${count(stories.omitted)} have none. The command below tells it.`
        : "There is no story of this name.",
    });
  return [
    el("h3", { text: "Its story, to the end of the history" }),
    story.sentences.map((sentence) => el("p", { class: "words" }, quoted(sentence))),
    story.deciding?.length
      ? el(
          "p",
          { class: "row" },
          "Decided by ",
          story.deciding.map((event) => el("button", { onclick: () => show({ event }), text: `event ${eventName(event)}` })),
        )
      : null,
  ];
}

/** Return the entries with the same guidance under other names. */
function relatives(story) {
  if (!story?.others?.length) return null;
  return [
    el("h3", { text: "The same guidance under other names" }),
    el(
      "ul",
      { class: "steps" },
      story.others.map(([other, status, relation, of]) =>
        el(
          "li",
          {},
          entryLink(other),
          el("span", { class: "what" }, quoted(`${status}, ${relation} ${page.history.name(of)}`)),
        ),
      ),
    ),
  ];
}

/** Return the events of the entry next to the present one. */
function stepList(name) {
  const { history } = page,
    touched = history.eventsOf(name);
  const middle = above(touched, view.event),
    from = Math.max(0, Math.min(middle - MOST_STEPS / 2, touched.length - MOST_STEPS)),
    to = Math.min(touched.length, from + MOST_STEPS);
  const rows = [];
  for (const event of touched.subarray(from, to)) {
    const [mark, tone] = sign(event),
      undone = history.undoneBy(event, view.event);
    const now = history.momentOf(event) === page.moment,
      state = page.timeline.state(name, event);
    rows.push(
      el(
        "li",
        {
          class: [undone && "undone", now && "now"].filter(Boolean).join(" ") || false,
          "aria-current": now ? "step" : false,
        },
        eventLink(event),
        el("span", { class: `sign ${tone}`, "aria-hidden": "true", text: mark }),
        el("span", { class: "what" }, quoted(stepWords(name, event))),
        el("span", { class: "number faint", text: `+${state.helpful} −${state.harmful}` }),
      ),
    );
  }
  return [
    from > 0 && el("p", { class: "note", text: `${count(from)} earlier` }),
    el("ol", { class: "steps tall", tabindex: 0, "aria-label": "Events of the entry" }, rows),
    to < touched.length && el("p", { class: "note", text: `${count(touched.length - to)} later` }),
  ];
}

function stepWords(name, event) {
  const { history } = page;
  if (history.entryOf(event) === name) return history.words(event);
  const before = page.timeline.state(name, event - 1),
    after = page.timeline.state(name, event);
  const changed = ["status", "helpful", "harmful", "text", "flags", "into"].some((key) => before[key] !== after[key]);
  if (history.injections.has(event))
    return history.isInjected(name, event) ? "injected from here on" : "no longer injected";
  return changed ? `${changeWords({ before, after })}: ${eventText(event)}` : eventText(event);
}
