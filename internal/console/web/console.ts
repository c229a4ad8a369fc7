// The entry point. Each module adds to a page that works without it.
import { copies } from "./copy";
import { details } from "./details";
import { dialog } from "./dialog";
import { keyboard } from "./keyboard";
import { live } from "./map";
import { replay } from "./replay";
import { tail } from "./tail";
import { localTimes } from "./times";

localTimes(document);
keyboard();
copies();
for (const field of document.querySelectorAll<HTMLSelectElement>("[data-submit]")) {
  field.addEventListener("change", () => field.form?.submit());
}
const map = document.getElementById("map");
if (map) {
  details(map);
  live(map);
}
const player = document.getElementById("replay");
if (player) void replay(player);
const clean = document.querySelector<HTMLAnchorElement>("a#clean");
if (clean) dialog(clean);
const status = document.getElementById("tail");
if (status) tail(status);
