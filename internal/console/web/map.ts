// Keeps the cleaner map up to date by a stream of events.
import { draw, type Block, type Open } from "./shapes";
import { stream } from "./stream";
import { unfold } from "./unfold";

interface Row {
  id: string;
  name: string;
  facts: string[];
  label: string;
  head: string;
  rest: string;
  detail: string;
  tone: string;
  bar: boolean;
  ratio: number;
  pass: number;
  blocks: Block[];
  open: Open | null;
  follower: boolean;
  replica: string;
}

interface Card {
  name: string;
  value: string;
  note: string;
  tone: string;
}

interface Update {
  cards?: Card[];
  rows: Row[];
  order?: string[];
  missing: string;
}

const passes = new Map<string, number>(); // the running pass of each row

export function live(map: HTMLElement): void {
  if (!document.body.dataset.live) return;
  const pause = stream(() => document.body.dataset.live!, {
    frame: (event) => apply(map, JSON.parse(event.data) as Update),
  });
  unfold(map, () => pause(false));
}

function apply(map: HTMLElement, update: Update): void {
  if (update.cards) cards(update.cards);
  missing(update.missing);
  for (const row of update.rows) {
    const section = find(map, row.id) ?? add(map, row.id);
    fill(section, row);
    say(row);
  }
  if (update.order) order(map, update.order);
}

function find(map: HTMLElement, id: string): HTMLElement | null {
  return map.querySelector<HTMLElement>(`[data-row="${CSS.escape(id)}"]`);
}

// add copies the shape of another row: partitions may be added while the page is open.
function add(map: HTMLElement, id: string): HTMLElement {
  const other = map.querySelector<HTMLElement>("[data-row]");
  if (!other) {
    location.reload();
    return map;
  }
  const section = other.cloneNode(true) as HTMLElement;
  section.dataset.row = id;
  section.querySelector("svg")!.replaceChildren();
  map.append(section);
  return section;
}

// order moves only rows that are elsewhere, as an element that is moved loses the focus.
function order(map: HTMLElement, ids: string[]): void {
  for (const section of map.querySelectorAll<HTMLElement>("[data-row]")) {
    if (!ids.includes(section.dataset.row!)) section.remove();
  }
  let place = map.firstElementChild;
  for (const id of ids) {
    const section = find(map, id);
    if (section === place) place = place?.nextElementSibling ?? null;
    else if (section) map.insertBefore(section, place);
  }
}

function text(within: Element, selector: string, value: string): void {
  const of = within.querySelector(selector)!;
  if (of.textContent !== value) of.textContent = value;
}

function fill(section: HTMLElement, row: Row): void {
  section.classList.toggle("follower", row.follower);
  section.dataset.replica = row.replica;
  text(section, "h2", row.name);
  const facts = section.querySelector(".facts-of .note")!;
  facts.replaceChildren(...row.facts.flatMap((f, i) => (i ? [document.createElement("br"), f] : [f])));
  const head = section.querySelector<HTMLElement>(".status strong")!;
  head.className = row.tone;
  text(section, ".status strong", row.head);
  text(section, ".status strong + span", row.rest);
  text(section, ".status .note", row.detail);
  const bar = section.querySelector("progress")!;
  bar.hidden = !row.bar;
  bar.value = row.ratio;
  const svg = section.querySelector("svg")!;
  svg.setAttribute("aria-label", row.label);
  draw(svg, row.blocks, row.open);
}

// say announces the begin and the end of a pass to screen readers.
function say(row: Row): void {
  const before = passes.get(row.id);
  passes.set(row.id, row.pass);
  if (before === undefined || before === row.pass || row.follower) return;
  const status = document.getElementById("say");
  if (status) status.textContent = row.name + (row.pass ? ": a pass began" : ": the pass ended");
  section: if (!row.pass) {
    const link = document.getElementById("passes");
    if (!link || link.dataset.stale) break section;
    link.dataset.stale = "1";
    const reload = document.createElement("a");
    reload.href = location.href;
    reload.className = "button fresh";
    reload.textContent = "Show new passes";
    link.append(" ", reload);
  }
}

function cards(all: Card[]): void {
  const list = document.querySelector("#cards .cards");
  if (!list) return;
  list.replaceChildren(
    ...all.map((card) => {
      const item = document.createElement("li");
      item.className = "card " + card.tone;
      const part = (kind: string, name: string, value: string) => {
        const of = document.createElement(kind);
        if (name) of.className = name;
        of.textContent = value;
        item.append(of, " ");
      };
      part("span", "name", card.name);
      part("strong", "", card.value);
      if (card.note) part("span", "note", card.note);
      return item;
    }),
  );
}

function missing(value: string): void {
  const of = document.getElementById("missing");
  if (!of) return;
  of.hidden = value === "";
  if (of.textContent !== value) of.textContent = value;
}
