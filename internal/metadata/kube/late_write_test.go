package kube

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/metadata/partitionset/commit"
	"heartwood.dev/heartwood/internal/placement"
)

// badNetwork simulates a faulty network between a broker and the API server. It can hold back a
// write of a PartitionSet until the sender has stopped waiting. It can also repeat a write, as some
// proxies do.
type badNetwork struct {
	next http.RoundTripper
	mu   struct {
		sync.Mutex
		hold    bool          // true if the next write must be held back
		held    *http.Request // write that was held back
		body    []byte
		between func() // function to call before the next write is repeated; nil if it is not repeated
	}
}

// badNetwork returns a client configuration whose requests pass through a badNetwork.
func (f *fixture) badNetwork() (*rest.Config, *badNetwork) {
	n := &badNetwork{}
	config := rest.CopyConfig(f.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		n.next = next // transport of the client or of the watches; both reach the same API server
		return transport(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/partitionsets/") {
				return n.write(next, r)
			}
			return next.RoundTrip(r)
		})
	})
	return config, n
}

func (n *badNetwork) write(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	n.mu.Lock()
	hold, between := n.mu.hold, n.mu.between
	n.mu.hold, n.mu.between = false, nil
	n.mu.Unlock()
	switch {
	case hold:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.mu.held, n.mu.body = r.Clone(context.WithoutCancel(r.Context())), body
		return nil, errors.New("the connection is interrupted")
	case between != nil:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		for range 2 {
			again := r.Clone(r.Context())
			again.Body = io.NopCloser(bytes.NewReader(body))
			response, err := next.RoundTrip(again)
			if err != nil || between == nil {
				return response, err
			}
			_ = response.Body.Close()
			between()
			between = nil
		}
	}
	return next.RoundTrip(r)
}

// holdNext makes the network hold back the next write.
func (n *badNetwork) holdNext() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.hold = true
}

// repeatNext makes the network repeat the next write; between is called before the repetition.
func (n *badNetwork) repeatNext(between func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.between = between
}

// deliver sends the write that was held back, and returns the status of the response.
func (n *badNetwork) deliver(t *testing.T) int {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.held == nil {
		t.Fatal("no write was held back")
	}
	again := n.mu.held.Clone(t.Context())
	again.Body = io.NopCloser(bytes.NewReader(n.mu.body))
	response, err := n.next.RoundTrip(again)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// lateFixture contains broker 0, which leads orders-0 behind a bad network, and brokers 1 and 2.
// The partitions orders-0 and orders-2 are in the same set.
type lateFixture struct {
	*fixture
	network *badNetwork
	leader  *broker
	topic   metadata.ID
	epoch   int32 // current leader epoch
}

func newLateFixture(f *fixture) *lateFixture {
	config, network := f.badNetwork()
	f.topic("orders", 3)
	f.assign(orders(0), 0, 1, 2)
	late := &lateFixture{fixture: f, network: network, leader: f.run(0, config)}
	for _, follower := range []*broker{f.run(1, f.config), f.run(2, f.config)} {
		follower.until("all up", up(0, 1, 2))
	}
	late.leader.until("all up", up(0, 1, 2))
	late.elect()
	return late
}

// elect makes broker 0 the leader and the only in-sync replica, in the next leader epoch.
func (f *lateFixture) elect() {
	f.t.Helper()
	f.epoch++
	f.fixture.elect(orders(0), 0, f.epoch, 1)
	f.topic = f.leader.until("leads", leads("orders", 0, f.epoch)).Topic("orders").ID
}

// propose makes the leader propose an ISR change. from and to are the sizes of the ISR before and
// after the change; the ISR contains the brokers with the lowest ids.
func (f *lateFixture) propose(from, to int32) error {
	change := metadata.ISRChange{Topic: f.topic, LeaderEpoch: f.epoch}
	for id := range from {
		change.From = append(change.From, id)
	}
	for id := range to {
		change.To = append(change.To, metadata.InSync{Broker: id, Epoch: 1, ReplicaIncarnation: "i"})
	}
	return f.leader.changeOne(change)
}

// testLateWrites checks that a write that adds broker 1 to the ISR, and arrives after the leader
// has stopped waiting for it, is not made if the set has changed in any way since.
func testLateWrites(plain *fixture) {
	f := newLateFixture(plain)
	for name, between := range map[string]func(){
		"another partition has changed":    func() { f.lead(orders(2), 1, f.epoch, 1) },
		"another broker was elected":       func() { f.lead(orders(0), 1, f.epoch+1, 1) },
		"the same broker was elected":      func() { f.lead(orders(0), 0, f.epoch+1, 1) },
		"an assignment has changed":        func() { f.assign(orders(2), f.epoch%2, 2) },
		"the leader has confirmed the ISR": func() { f.confirm() },
		"the set was created again":        func() { f.recreate() },
	} {
		f.network.holdNext()
		if err := f.propose(1, 2); err == nil || errors.Is(err, metadata.ErrISRConflict) {
			f.t.Errorf("%s: a write without a response ended with %v, want an unknown outcome", name,
				err)
		}
		between()
		before, versions := f.state(orders(0)), f.versions()
		if status := f.network.deliver(f.t); status != http.StatusConflict {
			f.t.Errorf("%s: the late write got status %d", name, status)
		}
		if after := f.state(orders(0)); after.Changes != before.Changes || len(after.ISR) != 1 ||
			!slices.Equal(f.versions(), versions) {
			f.t.Errorf("%s: the late write changed the partition to %+v", name, after)
		}
		f.epoch++
		f.elect()
	}
	f.lateWriteOfUnchangedSet()
	f.lateReport()
}

// confirm makes the leader propose the ISR that is already recorded. After that, the delayed write
// can no longer change the ISR, so the leader does not have to wait for the members that the write
// would add.
func (f *lateFixture) confirm() {
	if err := f.propose(1, 1); err != nil {
		f.t.Errorf("the leader could not confirm the ISR: %v", err)
	}
}

// recreate deletes the set and creates it again with the same content, as the operator does.
func (f *lateFixture) recreate() {
	set := &v1alpha1.PartitionSet{}
	f.get(setName(orders(0)), set)
	if err := f.client.Delete(f.t.Context(), set); err != nil {
		f.t.Fatal(err)
	}
	status := set.Status.DeepCopy()
	set.ResourceVersion, set.UID = "", ""
	f.create(set)
	status.DeepCopyInto(&set.Status)
	if err := f.client.Status().Update(f.t.Context(), set); err != nil {
		f.t.Fatal(err)
	}
}

// lateWriteOfUnchangedSet checks that a late write is made if the set has not changed, and is made
// only once. This is why the leader treats the outcome as unknown. The leader's next proposal
// determines the outcome.
func (f *lateFixture) lateWriteOfUnchangedSet() {
	f.network.holdNext()
	if err := f.propose(1, 2); err == nil || errors.Is(err, metadata.ErrISRConflict) {
		f.t.Errorf("got error %v, want an unknown outcome", err)
	}
	first, second := f.network.deliver(f.t), f.network.deliver(f.t)
	if first != http.StatusOK || second != http.StatusConflict {
		f.t.Errorf("the late write got status %d, its repetition %d", first, second)
	}
	if isr := f.state(orders(0)).ISR; len(isr) != 2 {
		f.t.Errorf("got ISR %+v", isr)
	}
	if err := f.propose(1, 2); err != nil {
		f.t.Errorf("the leader did not find out that the change was made: %v", err)
	}
}

// lateReport checks late reports of serving by a leader of an earlier broker epoch or leader epoch.
func (f *lateFixture) lateReport() {
	f.elect()
	f.network.holdNext()
	served := []metadata.Served{{Topic: f.topic, LeaderEpoch: f.epoch}}
	if err := f.leader.ReportServing(f.t.Context(), 0, served); err == nil {
		f.t.Error("a report without a response ended without an error")
	}
	f.elect()
	if status := f.network.deliver(f.t); status != http.StatusConflict {
		f.t.Errorf("a late report got status %d", status)
	}
	if state := f.state(orders(0)); state.Serving {
		f.t.Errorf("the report of leader epoch %d changed %+v", f.epoch-1, state)
	}
}

// testRepeatedWrites checks that the leader does not conclude that its change was not made, if a
// proxy sends the write twice and returns the response to the second request, which is a conflict.
func testRepeatedWrites(plain *fixture) {
	f := newLateFixture(plain)
	f.network.repeatNext(func() {})
	if err := f.propose(1, 2); err != nil {
		f.t.Errorf("got error %v", err)
	}
	if isr := f.state(orders(0)).ISR; len(isr) != 2 {
		f.t.Fatalf("got ISR %+v", isr)
	}
	// The operator removes broker 2 before the repetition. Broker 1 stays in the ISR.
	f.elect()
	f.network.repeatNext(func() {
		f.fixture.change(orders(0), func(set *partitionset.Set) {
			entry, _ := set.Get(orders(0))
			state := *entry.State
			state.ISR = slices.DeleteFunc(slices.Clone(state.ISR),
				func(m placement.InSyncReplica) bool { return m.Broker == 2 })
			set.PutState(orders(0), state)
		})
	})
	if err := f.propose(1, 3); err == nil || errors.Is(err, metadata.ErrISRConflict) {
		f.t.Errorf("got error %v, want an unknown outcome: broker 1 was added", err)
	}
	if isr := f.state(orders(0)).ISR; len(isr) != 2 {
		f.t.Errorf("got ISR %+v", isr)
	}
	if err := f.propose(2, 1); err != nil {
		f.t.Errorf("a removal: got error %v", err)
	}
}

// testConcurrentWriters checks that no change is lost while brokers that lead partitions in the
// same set change them, and the operator changes other partitions.
func testConcurrentWriters(f *fixture) {
	const partitions, rounds = 12, 8
	f.topic("orders", partitions)
	b0, b1 := f.run(0, f.config), f.run(1, f.config)
	b1.until("both up", up(0, 1))
	b0.until("both up", up(0, 1))
	for index := range int32(partitions) {
		f.assign(orders(index), 0, 1)
		f.lead(orders(index), index%2, 3, 1)
	}
	leadsAll := func(i *metadata.Image) bool {
		return !slices.ContainsFunc(i.Topic("orders").Partitions,
			func(p *metadata.Partition) bool { return p.Leader != p.Index%2 })
	}
	topic := b0.until("leaders elected", leadsAll).Topic("orders").ID
	b1.until("leaders elected", leadsAll)
	var done sync.WaitGroup
	stopped := make(chan struct{})
	for index := range int32(partitions) {
		leader := []*broker{b0, b1}[index%2]
		done.Go(func() {
			all := []metadata.InSync{{Broker: 0, Epoch: 1, ReplicaIncarnation: "i"},
				{Broker: 1, Epoch: 1, ReplicaIncarnation: "i"}}
			alone := all[index%2 : index%2+1]
			for round := range rounds {
				change := metadata.ISRChange{Topic: topic, Partition: index, LeaderEpoch: 3,
					From: []int32{index % 2}, To: all}
				if round%2 == 1 {
					change.From, change.To = []int32{0, 1}, alone
				}
				err := leader.changeOne(change)
				for errors.Is(err, commit.ErrConflict) { // all attempts to commit have conflicted
					err = leader.changeOne(change)
				}
				if err != nil {
					f.t.Errorf("partition %d, round %d: %v", index, round, err)
					return
				}
			}
		})
	}
	var operator sync.WaitGroup
	operator.Go(func() {
		for {
			select {
			case <-stopped:
				return
			case <-time.After(20 * time.Millisecond): // the brokers write in between
				f.note(orders(0)) // changes the same objects
				f.note(orders(1))
			}
		}
	})
	done.Wait()
	close(stopped)
	operator.Wait()
	for index := range int32(partitions) {
		// The entry must show one change for the election, and one for each round.
		if state := f.state(orders(index)); state.Changes != 1+rounds || len(state.ISR) != 1 {
			f.t.Errorf("partition %d: got %+v after %d changes", index, state, state.Changes)
		}
	}
}

// TestWriteNeedsAVersion checks that a write without a resourceVersion is rejected, because it
// would replace any version of the set.
func TestWriteNeedsAVersion(t *testing.T) {
	api := commitAPI{&Store{metrics: newMetrics()}}
	set := setOf("0 abcdefgh", "0@1 0:1 i 1")
	set.ResourceVersion = ""
	if _, err := api.UpdateStatus(t.Context(), set); !errors.Is(err, commit.ErrConflict) {
		t.Errorf("status: got error %v", err)
	}
	if _, err := api.UpdateSpec(t.Context(), set); !errors.Is(err, commit.ErrConflict) {
		t.Errorf("spec: got error %v", err)
	}
}
