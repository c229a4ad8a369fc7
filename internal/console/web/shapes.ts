// Draws the blocks of a row. The server renders the same shapes (templates/parts.html, "block"), so
// the first update changes only what is different.
export interface Block {
  k: string; // base offset
  x: number; // percent
  w: number; // percent
  c: string; // classes
  g: number; // share of garbage
  r: number; // share that was read
  t: string; // title
  l: string; // label below
  h: string; // link
}

// Open is the bracket below the segments of an unfolded block.
export interface Open {
  k: string; // base offset of the first segment
  x: number; // percent
  w: number; // percent
  m: number; // middle of the label, percent
  l: string; // label
  h: string; // link
}

const svgNamespace = "http://www.w3.org/2000/svg";
const height = 40;
const top = 4;

function set(of: Element, name: string, value: string): void {
  if (of.getAttribute(name) !== value) of.setAttribute(name, value);
}

function shape(name: string, kind: string): SVGElement {
  const of = document.createElementNS(svgNamespace, kind);
  if (name) of.setAttribute("class", name);
  return of;
}

function create(key: string): SVGAElement {
  const link = document.createElementNS(svgNamespace, "a") as SVGAElement;
  link.dataset.k = key;
  link.setAttribute("tabindex", "-1");
  for (const name of ["body", "garbage", "read", "edge"]) link.append(shape(name, "rect"));
  link.append(shape("", "text"));
  return link;
}

function update(link: SVGAElement, b: Block): void {
  set(link, "class", "b " + b.c);
  if (b.h) set(link, "href", b.h);
  else set(link, "role", "img"); // of the replay, where a block leads nowhere
  if (b.h && b.c.includes("folded")) set(link, "aria-expanded", "false"); // a click unfolds it
  else link.removeAttribute("aria-expanded");
  set(link, "aria-label", b.t);
  link.querySelector("title")?.remove(); // the box of the map replaces the browser's own
  const rect = (name: string, y: number, w: number, h: number) => {
    const of = link.querySelector("." + name)!;
    set(of, "x", b.x + "%");
    set(of, "width", w + "%");
    set(of, "y", String(y));
    set(of, "height", String(h));
  };
  rect("body", top, b.w, height);
  rect("garbage", top + height * (1 - b.g), b.w, height * b.g);
  rect("read", top, b.w * b.r, height);
  rect("edge", top, b.w, height);
  const text = link.querySelector("text")!;
  set(text, "x", b.x + b.w / 2 + "%");
  set(text, "y", "57");
  if (text.textContent !== b.l) text.textContent = b.l;
}

function bracket(svg: SVGSVGElement, open: Open | null): void {
  let link = svg.querySelector<SVGAElement>("a.fold");
  if (!open) return link?.remove();
  if (!link) {
    link = document.createElementNS(svgNamespace, "a") as SVGAElement;
    link.setAttribute("class", "fold");
    link.append(shape("", "rect"), shape("", "text"));
    svg.append(link);
  }
  link.dataset.k = open.k;
  set(link, "href", open.h);
  const line = link.querySelector("rect")!;
  const text = link.querySelector("text")!;
  for (const [of, name, value] of [
    [line, "x", open.x + "%"],
    [line, "y", "46"],
    [line, "width", open.w + "%"],
    [line, "height", "3"],
    [text, "x", open.m + "%"],
    [text, "y", "60"],
  ] as const) {
    set(of, name, value);
  }
  text.textContent = open.l;
}

// draw makes the blocks of an <svg> those of the list, in its order.
export function draw(svg: SVGSVGElement, blocks: Block[], open: Open | null = null): void {
  bracket(svg, open);
  const present = new Map<string, SVGAElement>();
  for (const link of svg.querySelectorAll<SVGAElement>("a.b")) present.set(link.dataset.k!, link);
  const focused = document.activeElement;
  // Remove first what is gone, as an element that is moved loses the focus.
  const keys = new Set(blocks.map((b) => b.k));
  let lost = false;
  for (const [key, link] of present) {
    if (keys.has(key)) continue;
    lost ||= link === focused;
    link.remove();
  }
  let before: Element | null = null;
  for (const b of blocks) {
    const link: SVGAElement = present.get(b.k) ?? create(b.k);
    update(link, b);
    const place: Element | null = before ? before.nextElementSibling : svg.querySelector("a.b");
    if (link !== place || !link.parentNode) {
      if (before) before.after(link);
      else if (place) place.before(link);
      else svg.append(link);
    }
    before = link;
  }
  const first = svg.querySelector<SVGAElement>("a.b");
  if (first && !svg.querySelector('a.b[tabindex="0"]')) first.setAttribute("tabindex", "0");
  if (lost && first) first.focus();
}
