// Go to a moment that somebody names, as far as the page knows it: the other ways to name one have their command.

const DAY_MS = 86_400_000;
const UNITS_MS = { s: 1000, m: 60_000, h: 3_600_000, d: DAY_MS, w: 7 * DAY_MS };
const REVISION = /^git:[A-Za-z0-9_./@{}^~:-]+$/;

function openGo() {
  $("go-where").value = "";
  refuseGo("");
  $("go-dialog").showModal();
}

/** Say why there is no such moment, with the command that finds it, if one does. */
function refuseGo(reason, line) {
  $("go-error").textContent = reason;
  fill($("go-command"), line ? copyBox(line, "the page at this moment") : null);
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

/** Return `{moment}` for what `--at` takes, or `{reason, line}`: why there is none, and the command that finds it. */
function findMoment(words) {
  const { history } = page;
  if (/^(~|book:)?[0-9]{1,15}$/.test(words)) {
    const event = words.startsWith("~") ? history.events - Number(words.slice(1)) : history.labelled(words);
    if (event > 0 && event < history.base)
      return {
        reason: `The page begins with event ${eventName(history.base)}; this command prints the playbook of an earlier one:`,
        line: META.commands?.show?.replace("{event}", event),
      };
    return event < 0 || event > history.events
      ? { reason: `The history has ${plural(history.events, "event")}.` }
      : { moment: history.momentAt(event) };
  }
  if (words.startsWith("session:")) return aroundSession(words.slice(8));
  if (words.startsWith("git:")) {
    const line = REVISION.test(words) ? atCommand(PLAIN.test(words) ? words : `'${words}'`) : null;
    return { reason: "The page has no commits; this command writes the page that opens at one:", line };
  }
  const age = /^([0-9]{1,9})([smhdw])$/.exec(words);
  const time = age ? Date.now() - Number(age[1]) * UNITS_MS[age[2]] : parseTime(words);
  if (Number.isFinite(time)) return { moment: asOf(time) };
  return {
    reason: "That is not a moment: give an event number, ~N, a time, an age such as 2d, or session:ID.",
  };
}

const atCommand = (words) => META.commands?.page?.replace("{event}", words);

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
  if (!ids) {
    const line = PLAIN.test(key) ? atCommand(`session:${words}`) : null;
    return { reason: "The page was made without session ids; this command finds the session:", line };
  }
  const rows = countSessions(),
    exact = rows.filter(({ index }) => ids[index] === key),
    found = exact.length || !key ? exact : rows.filter(({ index }) => ids[index].startsWith(key));
  if (found.length !== 1)
    return { reason: `${found.length ? "Several sessions have" : "No session has"} an id that begins with it.` };
  const [{ first, last }] = found;
  return { moment: words.endsWith("+") ? history.momentOf(last) : history.momentAt(first - 1) };
}
