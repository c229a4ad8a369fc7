// Reads a stream of events by one EventSource. While the page is hidden or paused there is none.
type Handlers = Record<string, (event: MessageEvent<string>) => void>;

// stream opens the stream of a URL, which is asked for whenever the stream is opened again. It
// returns a function that pauses the stream, or continues it.
export function stream(url: () => string, handlers: Handlers): (paused: boolean) => void {
  let source: EventSource | null = null;
  let still = false;
  const open = () => {
    source?.close();
    source = null;
    if (document.hidden || still) {
      state("still", "paused");
      return;
    }
    const of = (source = new EventSource(url()));
    of.onopen = () => state("live", "live");
    for (const [name, handle] of Object.entries(handlers)) {
      of.addEventListener(name, (event) => handle(event as MessageEvent<string>));
    }
    of.onerror = () => {
      if (of !== source) return;
      state("lost", "reconnecting");
      // The browser connects again by itself, but not after a response such as 503.
      if (of.readyState === EventSource.CLOSED) {
        setTimeout(() => of === source && open(), 2000);
      }
    };
  };
  document.addEventListener("visibilitychange", open);
  addEventListener("pagehide", () => source?.close());
  open();
  return (paused) => {
    still = paused;
    open();
  };
}

function state(name: string, text: string): void {
  const dot = document.getElementById("live");
  if (!dot) return;
  dot.dataset.state = name;
  dot.textContent = text;
}
