// One search over names, texts, sessions, raters, reasons and kinds; filters by kind, rater and session.

/** What the filters let through. `events` is null where every event passes. */
class Found {
  constructor({ q, kind, rater, session }) {
    this.words = q.toLowerCase().split(/\s+/).filter(Boolean);
    const { film } = page.history;
    this.entryFlags = this.words.map((word) => flagEntries(film, word));
    this.isPlain = !this.words.length && !kind && !rater && session < 0;
    this.events = this.isPlain ? null : this.#select(film, kind, rater, session);
  }

  /** Say whether an entry has every word in its name or in one of its texts. */
  entry(name) {
    return this.entryFlags.every((flags) => flags[name]);
  }

  #select(film, kind, rater, session) {
    const authors = film.authors.map(
      ([who, where]) => (!rater || film.raters[who] === rater) && (session < 0 || where === session + 1),
    );
    const kinds = film.kinds.map(
      ([name]) => !kind || name === kind || (kind.endsWith(".*") && name.startsWith(kind.slice(0, -1))),
    );
    const tests = this.words.map((word, i) => ({
      entries: this.entryFlags[i],
      kinds: film.kinds.map((parts) => parts.join(" ").toLowerCase().includes(word)),
      authors: film.authors.map(([who, where]) => authorText(film, who, where).includes(word)),
      events: flagEvents(film, word, this.entryFlags[i]),
    }));
    const { base } = page.history,
      result = new Uint32Array(page.history.events - base);
    let size = 0;
    for (let m = 0, e = 0; m < page.history.moments; m++) {
      const author = film.m_author[m];
      for (const last = page.history.lasts[m] - base; e < last; e++) {
        if (!authors[author] || !kinds[film.e_kind[e]]) continue;
        const passes = (test) =>
          test.authors[author] ||
          test.kinds[film.e_kind[e]] ||
          test.events[e] ||
          (film.e_entry[e] && test.entries[film.e_entry[e] - 1]);
        if (tests.every(passes)) result[size++] = base + e + 1;
      }
    }
    return result.slice(0, size);
  }
}

function authorText(film, rater, session) {
  const id = session ? (page.sessions?.ids?.[session - 1] ?? "") : "";
  return `${film.raters[rater]} ${id} ${session ? agentOf(session - 1) : ""}`.toLowerCase();
}

/** Return for each entry whether its name or one of its texts has a word. */
function flagEntries(film, word) {
  const flags = new Uint8Array(film.names.length);
  film.names.forEach((name, i) => {
    flags[i] = name.toLowerCase().includes(word);
  });
  if (!film.texts) return flags;
  const texts = film.texts.map((text) => text.toLowerCase().includes(word));
  for (let r = 0; r < film.c_event.length; r++)
    if (film.c_text[r] && texts[film.c_text[r] - 1]) flags[film.c_entry[r]] = 1;
  return flags;
}

/** Return for each event whether it changes such an entry, or quotes the word. */
function flagEvents(film, word, entries) {
  const { base } = page.history,
    flags = new Uint8Array(page.history.events - base);
  for (let r = 0; r < film.c_event.length; r++) if (entries[film.c_entry[r]]) flags[film.c_event[r] - base - 1] = 1;
  page.quotes?.event.forEach((event, i) => {
    if (page.quotes.quotes[i][1].toLowerCase().includes(word)) flags[event - base - 1] = 1;
  });
  return flags;
}

/** Fill the lists of kinds and raters to choose from. */
function fillFilters() {
  const { film } = page.history,
    option = (value, text = value) => el("option", { value, text }),
    used = [...new Set(film.kinds.map(([kind]) => kind))],
    families = [...new Set(used.map((kind) => `${kind.split(".")[0]}.*`))];
  fill($("kind"), option("", "Every kind"), [...families, ...used].sort().map((kind) => option(kind)));
  fill($("rater"), option("", "Every rater"), [...film.raters].sort().map((rater) => option(rater)));
}
