// A list of a million rows of which only those in sight are elements.

const TALLEST = 6_000_000; // Browsers place nothing exactly below some 16 million pixels.

/** Make a list box in an element: `rows(index)` returns the row's children, `choose(index)` is called for a chosen one. */
class VirtualList {
  constructor(box, { height, row, choose, label, paper = 400 }) {
    Object.assign(this, { box, height, row, choose, paper, length: 0, current: -1, first: -1, last: -1, printing: -1 });
    this.space = el("div", { class: "space", role: "presentation" });
    box.append(this.space);
    box.setAttribute("role", "listbox");
    box.setAttribute("aria-label", label);
    box.tabIndex = 0;
    box.addEventListener(
      "scroll",
      perFrame(() => this.draw()),
      { passive: true },
    );
    box.addEventListener("click", (event) => {
      const at = event.target.closest("[data-index]");
      if (at && !event.target.closest("button, a")) this.choose(Number(at.dataset.index));
    });
    box.addEventListener("keydown", (event) => this.press(event));
    new ResizeObserver(perFrame(() => this.draw(true))).observe(box);
  }

  /** Show so many rows, of which one is the current one; all rows are drawn anew. */
  set(length, current = -1) {
    this.length = length;
    this.space.style.height = `${Math.min(length * this.height, TALLEST)}px`;
    this.current = current;
    if (current >= 0) this.reveal(current);
    this.draw(true);
  }

  /** Make a row the current one and bring it into sight. */
  select(current) {
    this.current = current;
    if (current >= 0) this.reveal(current);
    this.draw(true);
  }

  /** Return the place of the top in rows, and how far all rows can be scrolled. */
  get range() {
    const view = this.box.clientHeight;
    const tall = Math.min(this.length * this.height, TALLEST);
    return { view, tall, rows: Math.max(0, this.length - view / this.height), pixels: Math.max(0, tall - view) };
  }

  get top() {
    const { rows, pixels } = this.range;
    return pixels ? (this.box.scrollTop / pixels) * rows : 0;
  }

  reveal(index) {
    const { view, rows, pixels } = this.range;
    const seen = view / this.height;
    const top = this.top;
    if (!rows || (index >= top + 0.5 && index <= top + seen - 1.5)) return;
    const wanted = Math.max(0, Math.min(rows, index - seen / 2 + 0.5));
    this.box.scrollTop = (wanted / rows) * pixels;
  }

  /** Have `paper` rows before and after the current one on paper, and only those in sight on the screen again. */
  print(on) {
    this.printing = on ? Math.max(0, this.current >= 0 ? this.current : this.first) : -1;
    this.draw(true);
  }

  draw(anew = false) {
    if (!this.box.isConnected) return;
    const top = this.top;
    const seen = this.box.clientHeight / this.height;
    // On paper the box is as high as its rows, and nothing is scrolled.
    const [from, to] =
      this.printing >= 0
        ? [this.printing - this.paper, this.printing + this.paper + 1]
        : [Math.floor(top) - 2, Math.ceil(top + seen) + 2];
    const [first, last] = [Math.max(0, from), Math.min(this.length, to)];
    const offset = this.box.scrollTop - top * this.height;
    if (!anew && first === this.first && last === this.last && offset === this.offset) return;
    Object.assign(this, { first, last, offset });
    const rows = [];
    for (let index = first; index < last; index++) {
      const made = el("div", {
        role: "option",
        id: `${this.box.id}-${index}`,
        "data-index": index,
        "aria-posinset": index + 1,
        "aria-setsize": this.length,
        "aria-selected": index === this.current ? "true" : "false",
      });
      this.row(index, made);
      made.style.height = `${this.height}px`;
      made.style.transform = `translateY(${offset + index * this.height}px)`;
      rows.push(made);
    }
    this.space.replaceChildren(...rows);
    const inSight = this.current >= first && this.current < last;
    if (inSight) this.box.setAttribute("aria-activedescendant", `${this.box.id}-${this.current}`);
    else this.box.removeAttribute("aria-activedescendant");
  }

  press(event) {
    const page = Math.max(1, Math.floor(this.box.clientHeight / this.height) - 1);
    const last = this.length - 1;
    const to = {
      ArrowDown: this.current + 1,
      ArrowUp: this.current < 0 ? 0 : this.current - 1,
      PageDown: this.current + page,
      PageUp: this.current - page,
      Home: 0,
      End: last,
      Enter: this.current,
    }[event.key];
    if (to === undefined || !this.length || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    this.choose(Math.max(0, Math.min(last, to)));
  }
}
