// Why: the story of an entry as Python tells it, its events, and the commands about it.

const MOST_STEPS = 120;

function drawStory() {
  const { history } = page,
    box = $("why"),
    name = view.entry,
    head = (...words) => el("h2", { id: "why-title" }, ...words);
  if (name < 0) {
    const words = "Select an entry or an event of one: its story is told here, with the events that decided it.";
    fill(box, head("Why"), note(words));
    return;
  }
  const state = page.timeline.state(name, view.event),
    into = state.into ? ` into ${history.name(state.into - 1)}` : "",
    now = state.status ? META.statuses[state.status] + into : "not yet in the playbook",
    missing = META.texts ? "It has no text at this moment." : "The page was made without texts.",
    story = page.storyOf?.get(name);
  fill(
    box,
    head("Why ", quoted(history.name(name))),
    state.status > 1 && el("p", {}, span("tag bad", quoted(leftWords(state)))),
    storyParts(story),
    el("p", { class: "quote" }, quoted(history.text(state) || missing)),
    el(
      "dl",
      { class: "facts" },
      fact(`At event ${momentName(view.event)}`, now),
      fact("Ratings", `${plural(state.helpful, "helpful", "helpful")}, ${state.harmful} harmful`),
      state.helpful + state.harmful > 0 &&
        fact("Helpful share", `${percent(state.trust[0])} to ${percent(state.trust[1])} (95 %)`),
      state.flags & PINNED ? fact("Pinned", "no update prunes it") : null,
      state.flags & RESTORED ? fact("Restored", "only a further harmful rating can prune it") : null,
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
  const { omitted } = page.stories;
  if (!story)
    return note(
      omitted
        ? `Only the entries that changed last have a story here; ${count(omitted)} have none. The command below tells it.`
        : "There is no story of this name.",
    );
  const links = story.deciding.map((event) => button(`event ${eventName(event)}`, () => show({ event })));
  return [
    el("h3", { text: "Its story, to the end of the history" }),
    story.sentences.map((sentence) => el("p", { class: "words" }, quoted(sentence))),
    links.length ? el("p", { class: "row" }, "Decided by ", links) : null,
  ];
}

/** Return the entries with the same guidance under other names. */
function relatives(story) {
  if (!story?.others.length) return null;
  const rows = story.others.map(([other, status, relation, of]) =>
    el("li", {}, entryLink(other), span("what", quoted(`${status}, ${relation} ${page.history.name(of)}`))),
  );
  return [el("h3", { text: "The same guidance under other names" }), el("ul", { class: "steps" }, rows)];
}

/** Return the events of the entry next to the present one. */
function stepList(name) {
  const touched = page.history.eventsOf(name),
    middle = above(touched, view.event),
    from = Math.max(0, Math.min(middle - MOST_STEPS / 2, touched.length - MOST_STEPS)),
    to = Math.min(touched.length, from + MOST_STEPS),
    rows = touched.slice(from, to).map((event) => stepRow(name, event));
  return [
    from > 0 && note(`${count(from)} earlier`),
    el("ol", { class: "steps tall", tabindex: 0, "aria-label": "Events of the entry" }, rows),
    to < touched.length && note(`${count(touched.length - to)} later`),
  ];
}

function stepRow(name, event) {
  const undone = page.history.undoneBy(event, view.event),
    now = page.history.momentOf(event) === page.moment,
    state = page.timeline.state(name, event);
  return el(
    "li",
    { class: [undone && "undone", now && "now"].filter(Boolean).join(" ") || false, "aria-current": now && "step" },
    eventLink(event),
    signSpan(...sign(event)),
    span("what", quoted(stepWords(name, event))),
    span("number faint", `+${state.helpful} −${state.harmful}`),
  );
}

function stepWords(name, event) {
  const { history } = page;
  if (history.entryOf(event) === name) return history.words(event);
  if (history.injections.has(event))
    return history.isInjected(name, event) ? "injected from here on" : "no longer injected";
  const [change] = history.differences([name], event - 1, event);
  return change ? `${changeWords(change)}: ${eventText(event)}` : eventText(event);
}
