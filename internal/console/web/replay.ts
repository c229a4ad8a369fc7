// Plays the steps of a pass. A pass of a small log takes a tenth of a second, so the steps are
// played at a pace that can be followed.
import { draw, type Block } from "./shapes";

interface Frame {
  kind: string;
  text: string;
  after: string;
  blocks: Block[];
}

export async function replay(root: HTMLElement): Promise<void> {
  let frames: Frame[];
  try {
    frames = (await (await fetch(root.dataset.frames!)).json()) as Frame[];
  } catch {
    return; // the links still lead from step to step
  }
  const part = <T extends HTMLElement>(selector: string) => root.querySelector<T>(selector)!;
  const svg = root.querySelector("svg")!;
  const play = part<HTMLButtonElement>("#play");
  const slider = part<HTMLInputElement>("input[type=range]");
  let at = Number(root.dataset.at);
  let timer = 0;

  const show = (to: number) => {
    at = Math.min(Math.max(0, to), frames.length - 1);
    const frame = frames[at]!;
    draw(svg, frame.blocks);
    part("#caption strong").textContent = frame.after;
    part("#caption span").textContent = frame.text;
    part("#count").textContent = `${at} of ${frames.length - 1}`;
    slider.value = String(at);
  };
  const stop = () => {
    clearTimeout(timer);
    timer = 0;
    play.textContent = at === frames.length - 1 ? "Play again" : "Play";
  };
  // Sentences need time to be read; the reading of a segment is only a movement.
  const pause = () => {
    const quick = Math.max(60, Math.min(400, 8000 / frames.length));
    return frames[at]!.kind === "read" ? quick : Math.max(900, quick);
  };
  const step = () => {
    if (at >= frames.length - 1) return stop();
    show(at + 1);
    timer = window.setTimeout(step, pause());
  };
  play.hidden = false;
  play.addEventListener("click", () => {
    if (timer) return stop();
    show(at >= frames.length - 1 ? 0 : at);
    play.textContent = "Pause";
    timer = window.setTimeout(step, pause());
  });
  slider.addEventListener("input", () => {
    stop();
    show(Number(slider.value));
    play.textContent = "Play";
  });
  for (const [name, by] of [["#prev", -1], ["#next", 1]] as const) {
    part(name).addEventListener("click", (event) => {
      event.preventDefault();
      stop();
      show(at + by);
    });
  }
  part("#go").hidden = true;
  show(at);
}
