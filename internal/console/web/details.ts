// The box with the details of a block, on hover and focus; arrows move between blocks and rows.
// The server renders the details, so a page without scripts shows the same behind the link.
import { localTimes } from "./times";

export function details(map: HTMLElement): void {
  const box = document.createElement("div");
  box.className = "box";
  box.id = "box";
  box.setAttribute("role", "tooltip");
  box.hidden = true;
  document.getElementById("main")!.append(box); // within a landmark
  let shown: SVGAElement | null = null;
  let timer = 0;
  const hide = () => {
    clearTimeout(timer);
    shown?.removeAttribute("aria-describedby");
    shown = null;
    box.hidden = true;
  };
  const show = (link: SVGAElement, delay: number) => {
    if (shown === link) return;
    hide();
    shown = link;
    timer = window.setTimeout(async () => {
      const content = await load(link.getAttribute("href")!);
      if (shown !== link || !content) return;
      box.replaceChildren(...content);
      localTimes(box);
      link.setAttribute("aria-describedby", "box");
      box.hidden = false;
      place(box, link);
    }, delay);
  };
  const block = (event: Event) => (event.target as Element).closest<SVGAElement>("a.b[href]");
  for (const link of map.querySelectorAll<SVGAElement>("a.b")) {
    const title = link.querySelector("title");
    if (!title) continue;
    link.setAttribute("aria-label", title.textContent ?? "");
    title.remove(); // the browser would show it over the box
  }
  map.addEventListener("pointerover", (event) => {
    const link = block(event);
    if (link) show(link, 80);
    else if (!box.matches(":hover")) hide();
  });
  map.addEventListener("pointerleave", hide);
  map.addEventListener("focusin", (event) => {
    const link = block(event);
    if (link) show(link, 0);
  });
  map.addEventListener("focusout", hide);
  map.addEventListener("keydown", (event) => {
    const link = block(event);
    if (!link) return;
    if (event.key === "Escape") return hide();
    const next = neighbour(map, link, event.key);
    if (!next) return;
    event.preventDefault();
    link.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  });
}

async function load(href: string): Promise<Node[] | null> {
  try {
    const response = await fetch(href + "&fragment=1");
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    for (const link of page.querySelectorAll(".back")) link.remove();
    return [...page.body.childNodes].map((node) => document.adoptNode(node));
  } catch {
    return null; // the link still leads to the details
  }
}

// place puts the box below the block, or above it where there is no room.
function place(box: HTMLElement, link: SVGAElement): void {
  const at = link.querySelector(".body")!.getBoundingClientRect();
  const size = box.getBoundingClientRect();
  const left = Math.min(Math.max(8, at.left + at.width / 2 - size.width / 2), innerWidth - size.width - 8);
  const below = at.bottom + 10 + size.height < innerHeight || at.top < size.height + 10;
  box.style.left = left + scrollX + "px";
  box.style.top = (below ? at.bottom + 10 : at.top - size.height - 10) + scrollY + "px";
}

function neighbour(map: HTMLElement, link: SVGAElement, key: string): SVGAElement | null {
  const row = [...link.closest("svg")!.querySelectorAll<SVGAElement>("a.b")];
  const at = row.indexOf(link);
  switch (key) {
    case "ArrowRight":
      return row[at + 1] ?? null;
    case "ArrowLeft":
      return row[at - 1] ?? null;
    case "Home":
      return row[0] ?? null;
    case "End":
      return row[row.length - 1] ?? null;
    case "ArrowDown":
    case "ArrowUp": {
      const rows = [...map.querySelectorAll("svg.blocks")];
      const other = rows[rows.indexOf(link.closest("svg")!) + (key === "ArrowDown" ? 1 : -1)];
      return other ? nearest(other, link) : null;
    }
  }
  return null;
}

// nearest returns the block of a row that is below or above a block.
function nearest(row: Element, link: SVGAElement): SVGAElement | null {
  const middle = (of: Element) => {
    const rect = of.querySelector(".body")!.getBoundingClientRect();
    return rect.left + rect.width / 2;
  };
  const x = middle(link);
  let found: SVGAElement | null = null;
  for (const other of row.querySelectorAll<SVGAElement>("a.b")) {
    if (!found || Math.abs(middle(other) - x) < Math.abs(middle(found) - x)) found = other;
  }
  return found;
}
