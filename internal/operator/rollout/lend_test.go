package rollout

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"heartwood.dev/heartwood/internal/placement"
	"heartwood.dev/heartwood/test/kit/seed"
)

// single returns a partition with a replica on the given broker.
func single(home int32) Partition {
	return Partition{fmt.Sprintf("single/%d", home), placement.Stop{Replicas: []int32{home},
		InSync: []int32{home}, MinISR: 1}, true}
}

func TestLend(t *testing.T) {
	three := []int32{0, 1, 2}
	room := []Host{{true, false, 100}, {true, false, 100}, {true, false, 100}}
	build := func(home int32, bytes int64) Single {
		return Single{fmt.Sprintf("single/%d", home), home, bytes}
	}
	loan := func(home, host int32, left int64) Loan {
		return Loan{fmt.Sprintf("single/%d", home), home, host, left}
	}
	lent := func(home, host int32) Partition {
		p := single(home)
		p.Replicas = append(p.Replicas, host)
		return p
	}
	for name, c := range map[string]struct {
		brokers    string
		partitions []Partition
		lending    Lending
		want       LendingDecision
		accept     bool
	}{
		"nothing to lend": {"ooo", []Partition{partition(2, three, three)}, Lending{Hosts: room},
			LendingDecision{Lender: -1}, false},
		"others restart first": {"ooo", []Partition{single(0)},
			Lending{Singles: []Single{build(0, 10)}, Hosts: room}, LendingDecision{Lender: -1}, false},
		"lent by an updated broker": {"on", []Partition{single(0)},
			Lending{Singles: []Single{build(0, 10)}, Hosts: room},
			LendingDecision{Begin: []Loan{loan(0, 1, 10)}, Lender: 0}, false},
		"accepted": {"on", []Partition{single(0)},
			Lending{Singles: []Single{build(0, 10)}, Hosts: room}, LendingDecision{Lender: -1}, true},
		"another broker restarts": {"oNn", []Partition{single(0)},
			Lending{Singles: []Single{build(0, 10)}, Hosts: room}, LendingDecision{Lender: -1}, false},
		"another broker settles": {"omn", []Partition{single(0)},
			Lending{Singles: []Single{build(0, 10)}, Hosts: room}, LendingDecision{Lender: -1}, false},
		"not approved": {"ann", []Partition{single(0)},
			Lending{Singles: []Single{build(0, 10)}, Hosts: room}, LendingDecision{Lender: -1}, false},
		"prefers a broker that is not restarted": {"oon", []Partition{single(0), single(1)},
			Lending{Singles: []Single{build(0, 10), build(1, 10)}, Hosts: room},
			LendingDecision{Begin: []Loan{loan(0, 2, 10)}, Lender: 0}, false},
		"no other broker": {"o", []Partition{single(0)},
			Lending{Singles: []Single{build(0, 10)}, Hosts: room[:1]},
			LendingDecision{Lender: 0, Obstacle: NoHost, Partition: "single/0"}, false},
		"no space": {"on", []Partition{single(0)},
			Lending{Singles: []Single{build(0, 101)}, Hosts: room},
			LendingDecision{Lender: 0, Obstacle: NoSpace, Partition: "single/0"}, false},
		"cordoned": {"on", []Partition{single(0)},
			Lending{Singles: []Single{build(0, 10)}, Hosts: []Host{room[0], {Free: 100}}},
			LendingDecision{Lender: 0, Obstacle: NoHost, Partition: "single/0"}, false},
		"unknown size": {"on", []Partition{single(0)},
			Lending{Singles: []Single{build(0, -1)}, Hosts: room},
			LendingDecision{Lender: 0, Obstacle: UnknownSize, Partition: "single/0"}, false},
		"all or none, and then another broker": {"ooo",
			[]Partition{single(0), single(1), single(2)},
			Lending{Singles: []Single{build(0, 10), build(0, 300), build(1, 10), build(2, 10)}, Hosts: room},
			LendingDecision{Begin: []Loan{loan(1, 0, 10)}, Lender: 1}, false},
		"two do not fit": {"on", []Partition{single(0)},
			Lending{Singles: []Single{build(0, 60), build(0, 60)}, Hosts: room},
			LendingDecision{Lender: 0, Obstacle: NoSpace, Partition: "single/0"}, false},
		"a copy in progress takes space": {"onn", []Partition{lent(0, 1), single(0)},
			Lending{Loans: []Loan{loan(0, 1, 95)}, Singles: []Single{build(0, 10)}, Hosts: room},
			LendingDecision{Begin: []Loan{loan(0, 2, 10)}, Lender: 0}, false},
		"only one broker has loans": {"oon", []Partition{lent(1, 2), single(0)},
			Lending{Loans: []Loan{loan(1, 2, 5)}, Singles: []Single{build(0, 10)}, Hosts: room},
			LendingDecision{Lender: 1}, false},
		"kept during the restart": {"Non", []Partition{lent(0, 1)},
			Lending{Loans: []Loan{loan(0, 1, 0)}, Hosts: room}, LendingDecision{Lender: -1}, false},
		"kept while settling": {"mnn", []Partition{lent(0, 1)},
			Lending{Loans: []Loan{loan(0, 1, 0)}, Hosts: room}, LendingDecision{Lender: -1}, false},
		"taken back": {"nnn", []Partition{lent(0, 1)},
			Lending{Loans: []Loan{loan(0, 1, 0)}, Hosts: room},
			LendingDecision{End: []Loan{loan(0, 1, 0)}, Lender: -1}, false},
		"taken back, outside the window": {"wnn", []Partition{lent(0, 1)},
			Lending{Loans: []Loan{loan(0, 1, 0)}, Hosts: room},
			LendingDecision{End: []Loan{loan(0, 1, 0)}, Lender: -1}, false},
		"taken back, now accepted": {"onn", []Partition{lent(0, 1)},
			Lending{Loans: []Loan{loan(0, 1, 0)}, Hosts: room},
			LendingDecision{End: []Loan{loan(0, 1, 0)}, Lender: -1}, true},
		"the host is drained": {"onn", []Partition{lent(0, 1)},
			Lending{Loans: []Loan{loan(0, 1, 10)}, Hosts: []Host{room[0], {false, true, 9}, room[2]}},
			LendingDecision{End: []Loan{loan(0, 1, 10)}, Lender: -1}, false},
		"the host is drained while the home is down": {"Nnn", []Partition{lent(0, 1)},
			Lending{Loans: []Loan{loan(0, 1, 0)}, Hosts: []Host{room[0], {false, true, 9}, room[2]}},
			LendingDecision{Lender: -1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := State{Brokers: parse(c.brokers), Partitions: c.partitions, Observed: true,
				Lends: !c.accept}
			for i := range s.Partitions {
				s.Partitions[i].Lend = s.Partitions[i].Lend && s.Lends
			}
			if got := Lend(s, c.lending, Next(s)); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			s.Observed = false
			if got := Lend(s, c.lending, Next(s)); got.Begin != nil || got.End != nil {
				t.Errorf("spec not observed: got %+v", got)
			}
		})
	}
}

// lendingModel simulates rolling updates with partitions of one replica while the circumstances
// change: restarts become due, are reverted or held up, and brokers are cordoned or drained.
type lendingModel struct {
	*simulation
	random *rand.Rand
	// home of each partition with one replica; these partitions are the last ones
	homes  []int32
	loans  map[int32]Loan // loans by index in homes
	ending map[int32]bool // loans that end when their home is in sync
	hosts  []Host
}

func newLendingModel(random *rand.Rand) *lendingModel {
	m := &lendingModel{simulation: newSimulation(random), random: random, loans: map[int32]Loan{},
		ending: map[int32]bool{}}
	m.state.Observed, m.state.Lends = true, true
	if len(m.state.Brokers) == 1 {
		m.state.Brokers = append(m.state.Brokers, Broker{Up: true, Ready: true})
	}
	// Another test covers partitions with several replicas.
	m.state.Partitions = nil
	for range m.state.Brokers {
		m.hosts = append(m.hosts, Host{Receives: true, Free: 1000})
	}
	for range 1 + random.IntN(6) {
		home := int32(random.IntN(len(m.state.Brokers)))
		m.homes = append(m.homes, home)
		p := single(home)
		p.Name = fmt.Sprintf("single/%d", len(m.homes)-1)
		m.state.Partitions = append(m.state.Partitions, p)
	}
	return m
}

func (m *lendingModel) lending() Lending {
	l := Lending{Hosts: slices.Clone(m.hosts)}
	for i, p := range m.state.Partitions {
		if loan, lent := m.loans[int32(i)]; lent {
			l.Loans = append(l.Loans, loan)
		} else if len(p.Replicas) == 1 {
			l.Singles = append(l.Singles, Single{p.Name, m.homes[i], 10})
		}
	}
	return l
}

// decide makes one step of the operator. It checks that no restart leaves a partition without an
// in-sync replica on a live broker.
func (m *lendingModel) decide(t *testing.T) Phase {
	t.Helper()
	next := Next(m.state)
	d := Lend(m.state, m.lending(), next)
	for _, loan := range d.End {
		m.ending[m.index(loan)] = true
		delete(m.loans, m.index(loan))
	}
	for _, loan := range d.Begin {
		p := &m.state.Partitions[m.index(loan)]
		if _, lent := m.loans[m.index(loan)]; lent || len(p.Replicas) != 1 || loan.Host == loan.Home {
			t.Fatalf("loan %+v of partition %+v", loan, p)
		}
		m.loans[m.index(loan)] = loan
		p.Replicas = append(slices.Clone(p.Replicas), loan.Host)
	}
	if next.Phase == Restart {
		m.restart(t, next.Broker)
		for _, p := range m.state.Partitions {
			if len(p.InSync) == 0 {
				t.Fatalf("restart of broker %d: partition %+v is unavailable", next.Broker, p)
			}
		}
	}
	return next.Phase
}

func (m *lendingModel) index(loan Loan) int32 {
	return int32(slices.IndexFunc(m.state.Partitions,
		func(p Partition) bool { return p.Name == loan.Partition }))
}

// complete removes the replicas of loans that have ended, once their homes are in sync.
func (m *lendingModel) complete() {
	for i := range m.ending {
		p := &m.state.Partitions[i]
		if home := m.homes[i]; slices.Contains(p.InSync, home) && m.state.Brokers[home].Up {
			p.Replicas, p.InSync = []int32{home}, []int32{home}
			delete(m.ending, i)
		}
	}
}

// disturb makes a random change of the circumstances.
func (m *lendingModel) disturb() {
	id := m.random.IntN(len(m.state.Brokers))
	b := &m.state.Brokers[id]
	switch m.random.IntN(4) {
	case 0:
		b.Updated = b.Ready && !b.Updated
	case 1:
		b.Hold = Hold(m.random.IntN(3))
	case 2:
		m.hosts[id].Leaves = m.random.IntN(2) == 0
	case 3:
		m.hosts[id].Receives = m.random.IntN(2) == 0
	}
}

// TestLendingKeepsSingleReplicasAvailable checks that, during simulated rolling updates, each
// partition with one replica always has an in-sync replica on a live broker. In the end, every
// broker must have been restarted, and each partition must have its replica on its original broker.
func TestLendingKeepsSingleReplicasAvailable(t *testing.T) {
	for seed := range seed.Sequence(t, 300) {
		random := rand.New(rand.NewPCG(seed, 3))
		m := newLendingModel(random)
		for range 500 {
			m.decide(t)
			m.step(random)
			m.complete()
			if random.IntN(20) == 0 {
				m.disturb()
			}
		}
		for id := range m.state.Brokers { // nothing disturbs the rest of the update
			m.state.Brokers[id].Hold = NoHold
			m.hosts[id] = Host{Receives: true, Free: 1000}
		}
		done := false
		for range 20_000 {
			phase := m.decide(t)
			m.step(random)
			m.complete()
			if done = phase == Complete && len(m.loans)+len(m.ending) == 0; done {
				break
			}
		}
		if !done {
			t.Fatalf("seed %d: the update did not complete: %+v, loans %+v", seed, m.state, m.loans)
		}
		for i, p := range m.state.Partitions {
			if !slices.Equal(p.Replicas, []int32{m.homes[i]}) {
				t.Fatalf("seed %d: partition %d has replicas %v, and had one on broker %d", seed, i,
					p.Replicas, m.homes[i])
			}
		}
	}
}
