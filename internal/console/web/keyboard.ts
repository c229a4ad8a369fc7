// "/" moves to the search field of the page.
export function keyboard(): void {
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    const to = event.target as HTMLElement;
    if (to.closest("input, select, textarea")) return;
    const search = document.querySelector<HTMLElement>("[data-search]");
    if (!search) return;
    event.preventDefault();
    search.focus();
  });
}
