// Reads a stream of events by one EventSource. While the page is hidden or paused there is none. If
// the server refuses the stream, the page says why.
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
    of.onopen = () => {
      state("live", "live");
      refused("");
    };
    for (const [name, handle] of Object.entries(handlers)) {
      of.addEventListener(name, (event) => handle(event as MessageEvent<string>));
    }
    of.onerror = () => {
      if (of !== source) return;
      if (!refusal) state("lost", "reconnecting");
      // The browser connects again by itself, but not after a response such as 503.
      if (of.readyState !== EventSource.CLOSED) return;
      void reason(url()).then((text) => of === source && refused(text));
      setTimeout(() => of === source && open(), 2000);
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

let refusal = ""; // what the page shows

// reason returns why the server refuses a stream, which an EventSource does not reveal; "" if it
// does not refuse it any more.
async function reason(url: string): Promise<string> {
  const control = new AbortController();
  try {
    const response = await fetch(url, { signal: control.signal });
    return response.ok ? "" : (await response.text()).trim();
  } catch {
    return "";
  } finally {
    control.abort(); // a stream has no end
  }
}

// refused shows why there is no stream, or hides what it has shown.
function refused(text: string): void {
  const of = document.getElementById("missing");
  if (!of || text === refusal) return;
  refusal = of.textContent = text;
  of.hidden = text === "";
  if (text) state("lost", "not live");
}

function state(name: string, text: string): void {
  const dot = document.getElementById("live");
  if (!dot) return;
  dot.dataset.state = name;
  dot.textContent = text;
}
