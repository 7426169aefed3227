// Commands to copy, and what is shown as JSON or CSV. The page itself changes nothing.

/** Command lines to copy, with places for values. */
const COMMANDS = {
  show: "tallybook show --at {at}",
  log: "tallybook log --since {before} --until {event}",
  diff: "tallybook diff {since} {at}",
  former: "tallybook show --gone --at {at}",
  why_at: "tallybook why --at {at} {entry}",
  log_entry: "tallybook log {entry}",
  log_session: "tallybook log --session={session}",
  undo_event: "tallybook undo {event}",
  undo_session: "tallybook undo --of={session}",
  without_session: "tallybook what-if --without=session:{session}",
  score_session: "tallybook score --session={session} --detail",
  score: "tallybook score --at {at}",
  page: "tallybook page --at {at}",
};
const PLAIN = /^[A-Za-z0-9_][A-Za-z0-9_.:-]*$/;
/** Characters that a terminal obeys or hides: controls, marks of direction, halves of pairs, line ends. */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u;

/** Return the pattern of a command, undefined on a page of a commit: commands read the project's own ledger. */
const patternOf = (kind) => (META.commands ? COMMANDS[kind] : undefined);

/** Return a value for a shell, null where it cannot be given to one. */
function quoteFor(value) {
  if (PLAIN.test(value)) return value;
  return UNSAFE.test(value) ? null : `'${value.replaceAll("'", `'"'"'`)}'`;
}

/** Return a value as the last argument of a command: one that looks like an option follows `--`. */
function argumentFor(value) {
  const text = quoteFor(value);
  return text !== null && value.startsWith("-") ? `-- ${text}` : text;
}

/** Return the command of a kind, with its values; null where there is none, or a value cannot be given to a shell. */
function commandLine(
  kind,
  { event = view.event, at, other = view.since, entry = view.entry, session = view.session } = {},
) {
  const pattern = patternOf(kind);
  if (!pattern) return null;
  const { history } = page,
    values = {
      event: history.label(event),
      at: at === undefined ? history.moment(event) : at,
      since: history.moment(other),
      before: history.label(history.firstOf(history.momentOf(event)) - 1),
    };
  if (entry >= 0) values.entry = argumentFor(history.name(entry));
  if (session >= 0 && page.sessions?.ids)
    values.session = quoteFor(page.sessions.ids[session]);
  let refused = false;
  const line = pattern.replace(/\{([a-z]+)\}/g, (_, name) => {
    refused ||= values[name] === null || values[name] === undefined;
    return values[name];
  });
  return refused ? null : line;
}

/** Return a command with a button that copies it, or why there is none. */
function commandBox(kind, values, what) {
  const line = commandLine(kind, values);
  if (line) return copyBox(line, what);
  const reason = META.texts ? "the value has control characters" : "the page was made without texts";
  return patternOf(kind) ? note(`${what}: no command, because ${reason}.`) : null;
}

/** Return a command line with a button that copies it. */
function copyBox(line, what) {
  const copier = el("button", { type: "button", "aria-label": `Copy: ${what}`, onclick: () => copy(line) }, "Copy");
  return el("div", { class: "copy" }, el("code", { text: line }), copier);
}

const MOST_UNDOS = 5;

/** Return the commands that undo a moment, or bring back what is undone of it at the end of the history. */
function undoBoxes(moment) {
  const { history } = page,
    boxes = new Map();
  for (let event = history.last(moment); event >= history.firstOf(moment) && boxes.size < MOST_UNDOS; event--) {
    const scope = META.undo[history.kind(event)];
    if (!scope) continue;
    const by = history.undoneBy(event, history.events),
      words = by ? `bring back what event ${eventName(by)} undid` : scope === "batch" ? "undo this moment" : `undo event ${eventName(event)}`;
    boxes.set(by || event, commandBox("undo_event", { event: by || event }, words));
    if (scope === "batch") break;
  }
  return [...boxes.values()].reverse();
}

/** Put a text on the clipboard, and say so. */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // A page opened from a file may not have the clipboard of the newer kind.
    const area = el("textarea", { class: "unseen", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  say("Copied.");
}

/** Return the command of what is shown. */
function viewCommand() {
  const { tab, since } = view;
  if (tab === "scores") return commandLine("score");
  if (tab === "sessions" && view.session >= 0) return commandLine("log_session");
  if (tab === "sessions") return commandLine("log");
  if (tab === "lives" && view.entry >= 0) return commandLine("why_at");
  if (tab === "former") return commandLine("former");
  return commandLine(since ? "diff" : "show");
}

/** Return what is shown as rows: the first one has the names of the columns. */
function shownRows() {
  const { history } = page;
  if (view.tab === "sessions") return sessionRows();
  if (view.tab === "scores") return scoreRows();
  const states = (view.tab === "playbook" ? page.book.kept : view.tab === "former" ? page.book.gone : lifeNames())
    .map((name) => page.timeline.state(name, view.event))
    .filter(({ name }) => page.found.entry(name));
  return [
    ["name", "status", "helpful", "harmful", "pinned", "text"],
    ...states.map((state) => [
      history.name(state.name),
      META.statuses[state.status],
      state.helpful,
      state.harmful,
      Boolean(state.flags & PINNED),
      history.text(state),
    ]),
  ];
}

/** Return a value as a cell of CSV: a cell that a spreadsheet would run as a formula begins with an apostrophe. */
function cell(value) {
  const text = String(value ?? "");
  const safe = typeof value !== "number" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

const asCsv = (rows) => rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";

/** Return what is shown as JSON, with the moment and the head that it is of. */
function asJson([names, ...rows]) {
  const items = rows.map((row) => Object.fromEntries(row.map((value, i) => [names[i], value])));
  const { event, tab } = view;
  return JSON.stringify({ project: META.project, head: META.head, event, view: tab, rows: items }, null, 2);
}

/** Give the reader a file. */
function save(name, type, text) {
  const link = el("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
