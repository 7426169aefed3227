// The history: moments, events, and the state of every entry after any event, as Python wrote them.

const PINNED = 1,
  RESTORED = 2;

/** The states of every entry: for each entry its rows, in order. */
class Timeline {
  constructor(rows, names) {
    Object.assign(this, { rows, size: names });
    this.rowsOf = Array.from({ length: names }, () => []);
    rows.c_entry.forEach((name, row) => this.rowsOf[name].push(row));
  }

  /** Return an entry's state after an event. */
  state(name, event) {
    const { rows } = this,
      own = this.rowsOf[name],
      row = own[above(own, event, 0, own.length, (number) => rows.c_event[number]) - 1] ?? -1;
    const of = (column) => (row < 0 ? 0 : column[row]);
    return {
      name,
      status: of(rows.c_status),
      helpful: of(rows.c_helpful),
      harmful: of(rows.c_harmful),
      text: of(rows.c_text),
      flags: of(rows.c_flags),
      into: of(rows.c_into),
      place: of(rows.c_place),
      since: of(rows.c_event),
      trust: [of(rows.c_low), of(rows.c_high)],
    };
  }

  /** Return the events at which an entry's state changed. */
  turns(name) {
    return this.rowsOf[name].map((row) => this.rows.c_event[row]);
  }

  /** Return the entries after an event: those in the playbook in its order, those that left, and the counts. */
  book(event) {
    const states = Array.from({ length: this.size }, (_, name) => this.state(name, event)),
      kept = states.filter(({ status }) => META.statuses[status] === "kept").sort((one, other) => one.place - other.place),
      gone = states.filter(({ status }) => !["kept", "absent"].includes(META.statuses[status])),
      sum = (key) => kept.reduce((total, state) => total + state[key], 0);
    return {
      event,
      kept: kept.map(({ name }) => name),
      gone: gone.map(({ name }) => name),
      helpful: sum("helpful"),
      harmful: sum("harmful"),
      pinned: kept.filter(({ flags }) => flags & PINNED).length,
    };
  }
}

/** The history as the page shows it. */
class History {
  constructor(film) {
    this.film = film;
    this.timeline = new Timeline(film, film.names.length);
    // The events up to `base` are one snapshot, before the first moment.
    this.base = film.base;
    this.moments = film.m_size.length;
    this.events = film.base + film.e_kind.length;
    this.lasts = new Uint32Array(this.moments);
    for (let m = 0, last = film.base; m < this.moments; m++) this.lasts[m] = last += film.m_size[m];
    this.undone = new Map();
    this.undoes = new Map();
    this.redoes = new Map();
    const add = (map, key, value) => (map.has(key) ? map.get(key).push(value) : map.set(key, [value]));
    for (const [event, from, to] of film.undone) {
      add(this.undone, event, [from, to || Infinity]);
      add(this.undoes, from, event);
      if (to) add(this.redoes, to, event);
    }
    this.injections = new Map(film.injections);
    this.given = new Map();
  }

  /** Return, for each entry, the events that touch it, in order. */
  #touches() {
    const { film } = this,
      touched = film.names.map(() => []);
    const add = (name, event) => {
      // An entry that a batch names twice in one event is touched once.
      if (touched[name].at(-1) !== event) touched[name].push(event);
    };
    let r = 0;
    while (film.c_event[r] <= this.base) r++;
    for (let e = this.base; e <= this.events; e++) {
      const own = this.entryOf(e);
      if (own >= 0) add(own, e);
      for (; film.c_event[r] === e; r++) add(film.c_entry[r], e);
      for (const name of this.injections.get(e) || []) add(name, e);
    }
    return touched;
  }

  /** Return the events that touch an entry, in order; the index of them is made when it is first asked for. */
  eventsOf(name) {
    this.touched ??= this.#touches();
    return this.touched[name];
  }

  /** Return the moment that has an event; -1 before the first event. */
  momentOf(event) {
    return event <= this.base ? -1 : Math.min(this.moments - 1, above(this.lasts, event - 1));
  }

  /** Return the last moment that is over at an event, as `--at` means it: inside a batch, the one before it. */
  momentAt(event) {
    return above(this.lasts, event) - 1;
  }

  /** Return the number by which commands know an event: in a shared playbook another one than the page counts by. */
  label(event) {
    const [first, label] = this.labelRow(event);
    return label.replace(/[0-9]+$/, (number) => Number(number) + event - first);
  }

  /** Return the moment at which commands print the playbook of an event: of one that no book shares, one of the book. */
  moment(event) {
    return this.labelRow(event)[2] ?? this.label(event);
  }

  labelRow(event) {
    const labels = META.labels,
      at = labels ? above(labels, event, 0, labels.length, ([first]) => first) - 1 : -1;
    return at < 0 ? [event, String(event)] : labels[at];
  }

  /** Return the event that commands know by a number, -1 where there is none. */
  labelled(words) {
    if (!META.labels) return Number(words);
    for (let event = this.events; event > 0; event--) if (this.label(event) === words) return event;
    return -1;
  }

  last(moment) {
    return moment < 0 ? this.base : this.lasts[moment];
  }

  firstOf(moment) {
    return moment < 0 ? this.base : this.last(moment - 1) + 1;
  }

  time(moment) {
    return moment < 0 ? NaN : this.film.start + this.film.m_time[moment];
  }

  author(moment) {
    const [rater, session] = this.film.authors[this.film.m_author[moment]] || [0, 0];
    return { rater: this.film.raters[rater], session: session - 1 };
  }

  name(index) {
    return this.film.names[index];
  }

  text(state) {
    return state.text && this.film.texts ? this.film.texts[state.text - 1] : "";
  }

  /** Return the kind of an event, what it says without its entry, its rating, and whether that counted. */
  about(event) {
    return this.film.kinds[this.film.e_kind[event - 1 - this.base]] || ["", ""];
  }

  kind(event) {
    return this.about(event)[0];
  }

  /** Return what a rating is: helpful, harmful or neutral; nothing for other events. */
  rating(event) {
    return this.about(event)[2];
  }

  /** Return helpful or harmful for a rating that counted, and nothing for other events. */
  counted(event) {
    return this.about(event)[3] && this.rating(event);
  }

  words(event) {
    return this.about(event)[1];
  }

  entryOf(event) {
    return (this.film.e_entry[event - 1 - this.base] || 0) - 1;
  }

  /** Return the number of the event by which an event is undone as of a moment, 0 where it is not. */
  undoneBy(event, at) {
    return this.undone.get(event)?.find(([from, to]) => from <= at && at < to)?.[0] ?? 0;
  }

  /** Return the number of the event by which an event is undone later than a moment, 0 where it is not. */
  undoneAfter(event, at) {
    return this.undone.get(event)?.find(([from]) => from > at)?.[0] ?? 0;
  }

  /** Return what changed in a moment: entry, state before, state after. */
  changes(moment) {
    const first = this.firstOf(moment),
      last = this.last(moment),
      names = new Set();
    const { c_event, c_entry } = this.timeline.rows;
    for (let e = first; e <= last; e++) if (this.entryOf(e) >= 0) names.add(this.entryOf(e));
    for (let r = above(c_event, first - 1); r < c_event.length && c_event[r] <= last; r++) names.add(c_entry[r]);
    return this.differences(names, first - 1, last);
  }

  /** Return which of some entries differ between two events: entry, state before, state after. */
  differences(names, from, to) {
    const result = [];
    for (const name of names) {
      const before = this.timeline.state(name, from),
        after = this.timeline.state(name, to);
      const same = ["status", "helpful", "harmful", "text", "flags", "into", "place"].every(
        (key) => before[key] === after[key],
      );
      if (!same) result.push({ name, before, after });
    }
    return result;
  }

  /** Return the events at which an entry began or ceased to be among those that sessions are given, in turn. */
  injectionTurns(name) {
    if (!this.given.has(name))
      this.given.set(name, this.eventsOf(name).filter((event) => this.injections.get(event)?.includes(name)));
    return this.given.get(name);
  }

  /** Say whether an entry is among those that sessions are given, as of an event. */
  isInjected(name, event) {
    return above(this.injectionTurns(name), event) % 2 === 1;
  }
}
