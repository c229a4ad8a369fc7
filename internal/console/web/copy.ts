// Buttons that copy the text of an element. Browsers permit this to pages of HTTPS and of localhost
// only; elsewhere the buttons stay hidden.
export function copies(): void {
  if (!navigator.clipboard) return;
  for (const button of document.querySelectorAll<HTMLButtonElement>("[data-copy]")) {
    const of = document.querySelector(`#${button.dataset.copy} code`);
    if (!of) continue;
    button.hidden = false;
    button.addEventListener("click", async () => {
      let said = "Copied";
      try {
        await navigator.clipboard.writeText(of.textContent ?? "");
      } catch {
        said = "The browser did not permit to copy";
      }
      const status = document.getElementById("say");
      if (status) status.textContent = said;
      button.textContent = said;
    });
  }
}
