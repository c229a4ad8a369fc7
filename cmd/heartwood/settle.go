package main

import (
	"runtime/debug"
	"time"
)

// startAge is when a process is taken to have started: what it does from then on is what it is
// there for.
const startAge = 10 * time.Second

// settle has the process give back, once, what only its start needed; stop ends that. A start makes
// garbage, which the runtime of an idle process would keep for minutes, and runs through two thirds
// of the program: the init of every package linked, the types of the Kubernetes API. An idle broker
// runs through little of it again.
func settle() (stop func() bool) {
	return time.AfterFunc(startAge, func() {
		debug.FreeOSMemory()
		_ = unmapExecutable() // without it the process is larger, and that is all
	}).Stop
}
