// The history: moments, events, and the state of every entry after any event. It adds up what Python wrote.

const PINNED = 1,
  RESTORED = 2;

/** The states of every entry under one policy: for each entry its changes, in order. */
class Timeline {
  /** Read the effects of the events and the change rows. */
  constructor(effects, rows, film) {
    const names = film.names.length,
      entries = film.e_entry,
      rowCount = rows.c_event.length;
    const ends = new Uint32Array(names + 1);
    for (let e = 0; e < effects.length; e++) if (effects[e] === 1 || effects[e] === 2) ends[entries[e]]++;
    for (let r = 0; r < rowCount; r++) ends[rows.c_entry[r] + 1]++;
    for (let n = 0; n < names; n++) ends[n + 1] += ends[n];
    this.starts = ends;
    this.rows = rows;
    const total = ends[names],
      next = ends.slice(0, names);
    this.event = new Uint32Array(total);
    this.helpful = new Uint32Array(total);
    this.harmful = new Uint32Array(total);
    this.row = new Int32Array(total);
    const put = (name, event, helpful, harmful, row) => {
      const k = next[name]++;
      this.event[k] = event;
      this.helpful[k] = helpful;
      this.harmful[k] = harmful;
      this.row[k] = row;
    };
    for (let e = 0, r = 0; e < effects.length; e++) {
      if (effects[e] === 3) {
        for (; r < rowCount && rows.c_event[r] === e + 1; r++) {
          put(rows.c_entry[r], e + 1, rows.c_helpful[r], rows.c_harmful[r], r);
        }
      } else if (effects[e]) {
        const name = entries[e] - 1,
          k = next[name] - 1,
          has = k >= ends[name];
        const [helpful, harmful] = has ? [this.helpful[k], this.harmful[k]] : [0, 0];
        put(name, e + 1, helpful + (effects[e] === 1), harmful + (effects[e] === 2), has ? this.row[k] : -1);
      }
    }
  }

  /** Return the place of an entry's state after an event, -1 where it had none. */
  find(name, event) {
    const start = this.starts[name],
      k = above(this.event, event, start, this.starts[name + 1]) - 1;
    return k < start ? -1 : k;
  }

  /** Return an entry's state at a place. */
  at(name, k) {
    const row = k < 0 ? -1 : this.row[k],
      { rows } = this;
    if (row < 0)
      return {
        name,
        status: 0,
        helpful: k < 0 ? 0 : this.helpful[k],
        harmful: k < 0 ? 0 : this.harmful[k],
        text: 0,
        flags: 0,
        into: 0,
        place: 0,
        since: 0,
      };
    return {
      name,
      status: rows.c_status[row],
      helpful: this.helpful[k],
      harmful: this.harmful[k],
      text: rows.c_text[row],
      flags: rows.c_flags[row],
      into: rows.c_into[row],
      place: rows.c_place[row],
      since: rows.c_event[row],
    };
  }

  state(name, event) {
    return this.at(name, this.find(name, event));
  }

  /** Return the entries after an event: those in the playbook in its order, those that left, and the counts. */
  book(event) {
    const { c_status, c_place, c_flags } = this.rows;
    const kept = [],
      gone = [];
    let helpful = 0,
      harmful = 0,
      pinned = 0;
    for (let name = 0; name + 1 < this.starts.length; name++) {
      const k = this.find(name, event);
      const row = k < 0 ? -1 : this.row[k];
      const status = row < 0 ? "absent" : META.statuses[c_status[row]];
      if (status === "kept") {
        kept.push(name);
        helpful += this.helpful[k];
        harmful += this.harmful[k];
        pinned += c_flags[row] & PINNED;
        this.order[name] = c_place[row];
      } else if (status !== "absent") gone.push(name);
    }
    kept.sort((one, other) => this.order[one] - this.order[other]);
    return { event, kept, gone, helpful, harmful, pinned };
  }

  get order() {
    return (this.places ??= new Float64Array(this.starts.length));
  }
}

/** The history as the page shows it. */
class History {
  constructor(film, trust) {
    this.film = film;
    this.own = new Timeline(film.e_effect, film, film);
    this.moments = film.m_size.length;
    this.events = film.e_kind.length;
    this.lasts = new Uint32Array(this.moments);
    for (let m = 0, last = 0; m < this.moments; m++) this.lasts[m] = last += film.m_size[m];
    this.undone = new Map();
    this.undoes = new Map();
    this.redoes = new Map();
    const add = (map, key, value) => (map.has(key) ? map.get(key).push(value) : map.set(key, [value]));
    film.u_event.forEach((event, i) => {
      add(this.undone, event, [film.u_from[i], film.u_to[i] || Infinity]);
      add(this.undoes, film.u_from[i], event);
      if (film.u_to[i]) add(this.redoes, film.u_to[i], event);
    });
    this.injections = this.#injections();
    this.turns = new Map();
    this.trusts = new Map();
    if (trust)
      trust.helpful.forEach((helpful, i) =>
        this.trusts.set(`${helpful} ${trust.harmful[i]}`, [trust.low[i], trust.high[i]]),
      );
    this.policies = [
      { stream: "", policy: "sticky", about: "the playbook's own policy", rule: META.rule },
      ...(META.policies || []),
    ];
    this.timelines = new Map([["", this.own]]);
  }

  /** Return event number → range of `i_entry`. */
  #injections() {
    const { i_event, i_size } = this.film,
      result = new Map();
    for (let i = 0, at = 0; i < i_event.length; i++) result.set(i_event[i], [at, (at += i_size[i])]);
    return result;
  }

  /** Index, for each entry, the events that touch it. */
  #touches() {
    const { film } = this,
      names = film.names.length,
      ends = new Uint32Array(names + 1);
    const each = (visit) => {
      let r = 0;
      for (let e = 1; e <= this.events; e++) {
        const own = film.e_entry[e - 1] - 1;
        if (own >= 0) visit(own, e);
        for (; r < film.c_event.length && film.c_event[r] === e; r++)
          if (film.c_entry[r] !== own) visit(film.c_entry[r], e);
        const [from, to] = this.injections.size ? this.injections.get(e) || [0, 0] : [0, 0];
        for (let i = from; i < to; i++) visit(film.i_entry[i], e);
      }
    };
    each((name) => ends[name + 1]++);
    for (let n = 0; n < names; n++) ends[n + 1] += ends[n];
    const next = ends.slice(0, names),
      touched = new Uint32Array(ends[names]);
    each((name, e) => {
      // An entry that a batch names twice in one event is touched once.
      if (next[name] === ends[name] || touched[next[name] - 1] !== e) touched[next[name]++] = e;
    });
    this.touchStarts = ends;
    this.touchEnds = next;
    this.touched = touched;
  }

  /** Return the events that touch an entry, in order; the index of them is made when it is first asked for. */
  eventsOf(name) {
    if (!this.touched) this.#touches();
    return this.touched.subarray(this.touchStarts[name], this.touchEnds[name]);
  }

  /** Return the moment that has an event; -1 before the first event. */
  momentOf(event) {
    return event <= 0 ? -1 : Math.min(this.moments - 1, above(this.lasts, event - 1));
  }

  /** Return the last moment that is over at an event, as `--at` means it: inside a batch, the one before it. */
  momentAt(event) {
    return above(this.lasts, event) - 1;
  }

  last(moment) {
    return moment < 0 ? 0 : this.lasts[moment];
  }

  firstOf(moment) {
    return moment < 0 ? 0 : this.last(moment - 1) + 1;
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

  kind(event) {
    return this.film.kinds[this.film.e_kind[event - 1]][0];
  }

  /** Return what a rating is: helpful, harmful or neutral; nothing for other events. */
  rating(event) {
    return this.film.kinds[this.film.e_kind[event - 1]][2];
  }

  /** Return what an event says, without its entry. */
  words(event) {
    const { e_kind, e_effect, kinds } = this.film,
      [, words, rating] = kinds[e_kind[event - 1]],
      counts = rating === "helpful" || rating === "harmful";
    return counts && !e_effect[event - 1] ? `${words}, no effect` : words;
  }

  entryOf(event) {
    return this.film.e_entry[event - 1] - 1;
  }

  /** Return the number of the event by which an event is undone as of a moment, 0 where it is not. */
  undoneBy(event, at) {
    const spans = this.undone.get(event);
    const span = spans && spans.find(([from, to]) => from <= at && at < to);
    return span ? span[0] : 0;
  }

  /** Return the number of the event by which an event is undone later than a moment, 0 where it is not. */
  undoneAfter(event, at) {
    return this.undone.get(event)?.find(([from]) => from > at)?.[0] ?? 0;
  }

  /** Return what changed in a moment: entry, state before, state after. */
  changes(moment, timeline = this.own) {
    const first = this.firstOf(moment),
      last = this.last(moment),
      names = new Set();
    const { c_event, c_entry } = timeline.rows;
    for (let e = first; e && e <= last; e++) if (this.entryOf(e) >= 0) names.add(this.entryOf(e));
    for (let r = above(c_event, first - 1); r < c_event.length && c_event[r] <= last; r++) names.add(c_entry[r]);
    return this.differences(names, first - 1, last, timeline);
  }

  /** Return which of some entries differ between two events: entry, state before, state after. */
  differences(names, from, to, timeline = this.own) {
    const result = [];
    for (const name of names) {
      const before = timeline.state(name, from),
        after = timeline.state(name, to);
      const same = ["status", "helpful", "harmful", "text", "flags", "into", "place"].every(
        (key) => before[key] === after[key],
      );
      if (!same) result.push({ name, before, after });
    }
    return result;
  }

  /** Return the events at which an entry began or ceased to be among those that sessions are given, in turn. */
  injectionTurns(name) {
    if (!this.turns.has(name)) {
      const names = (event) => {
        const [from, to] = this.injections.get(event) || [0, 0];
        return from < to && this.film.i_entry.subarray(from, to).includes(name);
      };
      this.turns.set(name, Array.from(this.eventsOf(name).filter(names)));
    }
    return this.turns.get(name);
  }

  /** Say whether an entry is among those that sessions are given, as of an event. */
  isInjected(name, event) {
    return above(this.injectionTurns(name), event) % 2 === 1;
  }

  trust(state) {
    return this.trusts.get(`${state.helpful} ${state.harmful}`);
  }

  /** Return a promise of the timeline under a policy: of a stream, "" for the playbook's own. */
  async timeline(name) {
    if (!this.timelines.has(name)) {
      const rows = await stream(name);
      const effects = rows ? this.film.e_effect.map((effect, i) => effect ^ rows.e_effect[i]) : null;
      this.timelines.set(name, rows ? new Timeline(effects, rows, this.film) : this.own);
    }
    return this.timelines.get(name);
  }
}
