// Shows the records that are appended to a topic. The server renders their rows.
import { stream } from "./stream";
import { localTimes } from "./times";

interface Update {
  rows: string;
  looked: number;
  found: number;
  shown: number;
  skipped: number;
}

const rowsMax = 200;

export function tail(status: HTMLElement): void {
  const url = document.body.dataset.live;
  const body = document.querySelector<HTMLTableSectionElement>("table.messages tbody");
  if (!url || !body) return;
  const sum = { looked: 0, found: 0, left: 0, skipped: 0 };
  let last = ""; // position of the stream
  const from = () =>
    last ? url.replace(/&from=[^&]*/, "") + "&from=" + encodeURIComponent(last) : url;
  const pause = stream(from, {
    records: (event) => {
      const update = JSON.parse(event.data) as Update;
      last = event.lastEventId;
      add(body, update.rows, status.dataset.latest !== undefined);
      sum.looked += update.looked;
      sum.found += update.found;
      sum.left += update.found - update.shown;
      sum.skipped += update.skipped;
      status.textContent = totals(sum);
    },
    fault: (event) => {
      const text = JSON.parse(event.data) as string;
      const missing = document.getElementById("missing");
      if (!missing) return;
      missing.textContent = text;
      missing.hidden = text === "";
    },
  });
  const button = document.getElementById("pause");
  if (!button) return;
  let paused = false;
  button.hidden = false;
  button.addEventListener("click", () => {
    paused = !paused;
    button.textContent = paused ? "Continue" : "Pause";
    pause(paused);
  });
}

function totals(sum: { looked: number; found: number; left: number; skipped: number }): string {
  const of = (n: number) => n.toLocaleString("en");
  return (
    `Since this page was opened: looked at ${of(sum.looked)} records, found ${of(sum.found)}.` +
    (sum.left ? ` ${of(sum.left)} of them are not shown.` : "") +
    (sum.skipped ? ` ${of(sum.skipped)} offsets were skipped: more is written than is read.` : "")
  );
}

// add puts rows above the others, and marks or removes the records that they supersede.
function add(body: HTMLTableSectionElement, html: string, latest: boolean): void {
  const page = new DOMParser().parseFromString(`<table>${html}</table>`, "text/html");
  localTimes(page);
  const rows = [...page.querySelectorAll("tr")];
  const keys = new Set(rows.map((row) => row.dataset.same));
  for (const old of [...body.rows]) {
    if (!old.dataset.same || !keys.has(old.dataset.same)) continue;
    if (latest) old.remove();
    else if (!old.classList.contains("superseded")) {
      old.classList.add("superseded");
      const tag = document.createElement("span");
      tag.className = "tag";
      tag.textContent = "superseded";
      old.cells[4]?.append(" ", tag);
    }
  }
  body.prepend(...rows.map((row) => document.adoptNode(row)));
  while (body.rows.length > rowsMax) body.rows[body.rows.length - 1]!.remove();
}
