package sim

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// history collects the clients' operations for a linearizability check: each key of a topic must
// behave like a register.
type history struct {
	mu         sync.Mutex
	operations map[string][]porcupine.Operation // operations by topic and key
}

// access is a write, or a read with its result. The empty value stands for a deleted key, or for a
// key that was never written.
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
	found := topic + "/" + key
	h.operations[found] = append(h.operations[found],
		porcupine.Operation{ClientId: client, Input: a, Call: called, Return: returned})
}

// wrote adds a batch's writes. If the batch was not acknowledged, its writes can take effect at any
// later time, or never.
func (h *history) wrote(topic string, client int, records []logRecord, called, returned time.Time,
	acked bool) {
	end := returned.UnixNano()
	if !acked {
		end = math.MaxInt64
	}
	for _, f := range records {
		if f.key != barrierKey {
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

// register is the model for one key.
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

// check checks every key, except in topics that lost records. It stops the check of a history after
// one second, and returns the number of these histories in unchecked.
func (h *history) check(t *testing.T, seed uint64, lostRecords func(topic string) bool) (checked,
	unchecked int) {
	for key, operations := range h.operations {
		if lostRecords(key[:len(key)-len("/k0")]) {
			continue
		}
		switch porcupine.CheckOperationsTimeout(register, relevant(operations), time.Second) {
		case porcupine.Illegal:
			for _, o := range operations {
				t.Logf("%s: %+v", key, o)
			}
			t.Fatalf("seed %d: the history of %s is not linearizable", seed, key)
		case porcupine.Unknown:
			unchecked++
		}
		checked++
	}
	return checked, unchecked
}

// relevant omits writes without a response whose value was never read. The check is allowed to
// assume that these writes did not happen.
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
