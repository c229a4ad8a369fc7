// Unfolds a folded block in place, and folds it again. The server draws the segments; what is
// unfolded is in the URL of the page and in that of its stream.
const openMax = 8; // as in unfold.go

// unfold handles clicks, Enter and Escape. It calls again to open the stream of the new URL.
export function unfold(map: HTMLElement, again: () => void): void {
  const change = (replica: string, span: string) => {
    const page = new URL(location.href);
    const stream = new URL(document.body.dataset.live!, location.href);
    const others = stream.searchParams.getAll("open").filter((o) => !o.startsWith(replica + ":"));
    const open = (span ? [...others, `${replica}:${span}`] : others).slice(-openMax);
    for (const of of [page, stream]) {
      of.searchParams.delete("open");
      of.searchParams.set("topic", stream.searchParams.get("topic")!);
      for (const one of open) of.searchParams.append("open", one);
    }
    if (document.getElementById("live")?.dataset.state !== "live") {
      location.href = page.href; // there is no stream that could be opened again
      return;
    }
    history.replaceState(null, "", page);
    document.body.dataset.live = "live" + stream.search;
    map.dispatchEvent(new PointerEvent("pointerleave")); // the details are those of other blocks
    again();
  };
  const fold = (row: HTMLElement, focus: boolean) => {
    const key = row.querySelector<SVGAElement>("a.fold")!.dataset.k!;
    const first = row.querySelector<SVGAElement>(`a.b[data-k="${key}"]`);
    if (focus) first?.focus(); // it becomes the folded block
    change(row.dataset.replica!, "");
  };
  map.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    const target = event.target as Element;
    const row = target.closest<HTMLElement>("[data-replica]");
    const block = target.closest<SVGAElement>("a.b.folded");
    if (!row || (!block && !target.closest("a.fold"))) return;
    event.preventDefault();
    if (!block) return fold(row, event.detail === 0); // 0: a click by the keyboard
    const query = new URL(block.getAttribute("href")!, location.href).searchParams;
    change(row.dataset.replica!, `${query.get("base")}-${query.get("last")}`);
  });
  const escape = (event: KeyboardEvent) => {
    const row = (event.target as Element).closest<HTMLElement>("[data-replica]");
    const shown = document.getElementById("box")?.hidden === false; // Escape hides it first
    if (event.key === "Escape" && !shown && row?.querySelector("a.fold")) fold(row, true);
  };
  map.addEventListener("keydown", escape, true);
}
