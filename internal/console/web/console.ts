// The entry point: what every page has. The map has modules of its own.
import { keyboard } from "./keyboard";
import { localTimes } from "./times";

localTimes(document);
keyboard();
