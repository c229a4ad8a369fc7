package sim

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// history is what clients did and saw, for a check of its linearizability: of each key of a topic
// the history of a register.
type history struct {
	mu         sync.Mutex
	operations map[string][]porcupine.Operation // by topic and key
}

// access is a write, or a read and what it saw. No value: deleted, or never written.
type access struct {
	write bool
	value string
}

func (h *history) add(topic, key string, client int, a access, called, returned int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.operations == nil {
		h.operations = map[string][]porcupine.Operation{}
	}
	at := topic + "/" + key
	h.operations[at] = append(h.operations[at],
		porcupine.Operation{ClientId: client, Input: a, Call: called, Return: returned})
}

// wrote notes a batch. One that was not acknowledged may take effect at any time, or never.
func (h *history) wrote(topic string, client int, facts []fact, called, returned time.Time,
	acked bool) {
	end := returned.UnixNano()
	if !acked {
		end = math.MaxInt64
	}
	for _, f := range facts {
		if f.key != marker {
			h.add(topic, f.key, client, access{true, f.value}, called.UnixNano(), end)
		}
	}
}

func (h *history) read(topic string, client int, state map[string]string, called,
	returned time.Time) {
	for i := range keyCount {
		key := fmt.Sprintf("k%x", i)
		h.add(topic, key, client, access{false, state[key]}, called.UnixNano(), returned.UnixNano())
	}
}

// register is what a key is to its clients.
var register = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, input, _ any) (bool, any) {
		a := input.(access)
		if a.write {
			return true, a.value
		}
		return state.(string) == a.value, state
	},
}

// checkHistory checks every key but those of topics that lost records with all that had them. A
// history that takes too long to check is given up; how many were is returned.
func (h *history) check(t *testing.T, seed uint64, tainted func(topic string) bool) (checked,
	givenUp int) {
	for at, operations := range h.operations {
		if tainted(at[:len(at)-len("/k0")]) {
			continue
		}
		switch porcupine.CheckOperationsTimeout(register, relevant(operations), time.Second) {
		case porcupine.Illegal:
			for _, o := range operations {
				t.Logf("%s: %+v", at, o)
			}
			t.Fatalf("seed %d: the history of %s is not one of a register", seed, at)
		case porcupine.Unknown:
			givenUp++
		}
		checked++
	}
	return checked, givenUp
}

// relevant leaves out writes without an answer whose value nobody read: they can always be taken as
// not done.
func relevant(operations []porcupine.Operation) []porcupine.Operation {
	read := map[string]bool{"": true}
	for _, o := range operations {
		if a := o.Input.(access); !a.write {
			read[a.value] = true
		}
	}
	var kept []porcupine.Operation
	for _, o := range operations {
		if o.Return < math.MaxInt64 || read[o.Input.(access).value] {
			kept = append(kept, o)
		}
	}
	return kept
}
