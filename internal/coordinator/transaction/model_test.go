package transaction

import (
	"flag"
	"fmt"
	"testing"

	"heartwood.dev/heartwood/test/kit/seed"
)

var modelRuns = flag.Int("transaction.runs", 150, "number of random runs")

// run simulates one random history and returns the fault that it has found, or "" if there was
// none.
func run(seed uint64, m mutant) (found string) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case fault:
			found = string(r)
		default:
			panic(r)
		}
	}()
	w := newWorld(seed, m)
	for i := range 2 + w.random.IntN(3) {
		c := &client{world: w, id: fmt.Sprint("id", i%2), producer: Producer{ID: NoProducerID}}
		if w.chance(2) {
			c.version = EpochBumpVersion
		}
		c.reconnect()
		w.clients = append(w.clients, c)
	}
	for range 1500 {
		w.step()
	}
	w.heal()
	w.check()
	return ""
}

// heal stops the injection of faults and waits until all transactions have ended.
func (w *world) heal() {
	w.healthy = true
	w.failover()
	if w.chance(2) { // in some histories, no client returns
		for _, c := range w.clients {
			c.restart()
		}
		w.clients = []*client{{world: w, id: "other", producer: Producer{ID: NoProducerID}}}
	}
	for range 3000 {
		w.step()
	}
	if len(w.requests) > 0 {
		w.fail("%d requests were never answered", len(w.requests))
	}
}

// check verifies that in the partitions no transaction is open and no transaction is only partly
// committed, and that no answer was wrong.
func (w *world) check() {
	visible, hidden := map[*txn]int{}, map[*txn]int{}
	for partition, p := range w.partitions {
		for _, v := range p.values {
			switch {
			case !v.decided:
				w.fail("%v: a transaction of %s is open", partition, v.txn.client.id)
			case v.visible:
				visible[v.txn]++
			default:
				hidden[v.txn]++
			}
		}
	}
	for _, t := range w.txns {
		switch {
		case visible[t] > 0 && hidden[t] > 0:
			w.fail("a transaction of %s is torn", t.client.id)
		case t.outcome == committed && visible[t] < t.written:
			w.fail("a committed transaction of %s lost values: got %d, want %d", t.client.id,
				visible[t], t.written)
		case t.outcome == aborted && visible[t] > 0, visible[t] > 0 && !t.commit:
			w.fail("values of an aborted transaction of %s are visible", t.client.id)
		}
	}
	for id, t := range w.state.byID {
		if t.phase == Ongoing || t.phase.prepared() {
			w.fail("%s stays in phase %s", id, t.phase)
		}
	}
}

func TestRandomHistories(t *testing.T) {
	for seed := range seed.Sequence(t, *modelRuns) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			if found := run(seed, mutant{}); found != "" {
				t.Fatal(found)
			}
		})
	}
}

// TestEachMutantIsFound checks that each rule is necessary: if a rule is disabled, the model must
// find a fault.
func TestEachMutantIsFound(t *testing.T) {
	for _, test := range []struct {
		name   string
		mutant mutant
	}{
		{"unsafeMarkers", mutant{unsafeMarkers: true}},
		{"unsafeAnswers", mutant{unsafeAnswers: true}},
		{"noResend", mutant{noResend: true}},
		{"firstAckEnds", mutant{firstAckEnds: true}},
		{"anySerial", mutant{anySerial: true}},
		{"noAbortTimer", mutant{noAbortTimer: true}},
		{"keepLastEpoch", mutant{keepLastEpoch: true}},
		{"noVerification", mutant{noVerification: true}},
		{"noGuard", mutant{noGuard: true}},
		{"noConnections", mutant{noConnections: true}},
		{"noFenceBump", mutant{noFenceBump: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for n := range uint64(400) {
				if found := run(n, test.mutant); found != "" {
					t.Logf("seed %d: %s", n, found)
					return
				}
			}
			t.Error("the model does not detect the mutant")
		})
	}
}
