// Opens the page of a link in a dialog; without scripts the link opens the page itself.
export function dialog(link: HTMLAnchorElement): void {
  link.addEventListener("click", async (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    let content: string;
    try {
      content = await (await fetch(link.href + "&fragment=1")).text();
    } catch {
      location.href = link.href;
      return;
    }
    const page = new DOMParser().parseFromString(content, "text/html");
    const box = document.createElement("dialog");
    const title = page.querySelector("h1");
    if (title) {
      const head = document.createElement("h2");
      head.id = "dialog-title";
      head.textContent = title.textContent;
      title.replaceWith(head);
      box.setAttribute("aria-labelledby", head.id);
    }
    box.append(...[...page.body.childNodes].map((node) => document.adoptNode(node)));
    box.querySelector("[data-close]")?.addEventListener("click", (e) => {
      e.preventDefault();
      box.close();
    });
    box.addEventListener("close", () => {
      box.remove();
      link.focus();
    });
    document.body.append(box);
    box.showModal();
  });
}
