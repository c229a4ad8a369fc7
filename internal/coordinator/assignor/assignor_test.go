package assignor

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"heartwood.dev/heartwood/test/kit/seed"
)

var runs = flag.Int("assignor.runs", 60, "number of random groups")

func id(n int) TopicID { return TopicID{byte(n >> 8), byte(n)} }

// history simulates a group whose members and topics change at random between assignments.
type history struct {
	t          *testing.T
	random     *rand.Rand
	sameTopics bool // true if all members subscribe to all topics
	topics     map[TopicID]int
	members    []Member
	nextID     int
}

func (l *history) change() {
	switch n := l.random.IntN(10); {
	case n < 4 || len(l.members) == 0:
		l.nextID++
		m := Member{ID: fmt.Sprint("m", l.random.IntN(1000), "-", l.nextID), Current: Assignment{}}
		if l.random.IntN(4) == 0 {
			m.Instance = fmt.Sprint("i", l.nextID)
		}
		l.members = append(l.members, m)
	case n < 7:
		index := l.random.IntN(len(l.members))
		l.members = slices.Delete(l.members, index, index+1)
	case n < 8 && len(l.topics) > 1:
		for topic := range l.topics {
			delete(l.topics, topic)
			break
		}
	default:
		l.topics[id(l.random.IntN(6))] = 1 + l.random.IntN(12)
	}
	for i := range l.members {
		m := &l.members[i]
		if l.sameTopics {
			m.Topics = slices.SortedFunc(maps.Keys(l.topics), compareTopics)
		} else if len(m.Topics) == 0 || l.random.IntN(5) == 0 {
			m.Topics = nil
			for n := range 6 {
				if l.random.IntN(2) == 0 {
					m.Topics = append(m.Topics, id(n)) // id of a topic that may not exist
				}
			}
		}
	}
	l.random.Shuffle(len(l.members),
		func(i, j int) { l.members[i], l.members[j] = l.members[j], l.members[i] })
}

// wantValid checks the invariants stated in the package comment.
func (l *history) wantValid(assigned map[string]Assignment) {
	l.t.Helper()
	owners := map[string]string{}
	for i := range l.members {
		m := &l.members[i]
		a, entry := assigned[m.ID]
		if !entry {
			l.t.Fatalf("%s has no entry", m.ID)
		}
		for topic, partitions := range a {
			if !slices.Contains(m.Topics, topic) || len(partitions) == 0 ||
				!slices.IsSorted(partitions) {
				l.t.Fatalf("%s subscribes to %v and got %v of %v", m.ID, m.Topics, partitions,
					topic)
			}
			for _, partition := range partitions {
				key := fmt.Sprint(topic, partition)
				if other, taken := owners[key]; taken || int(partition) >= l.topics[topic] {
					l.t.Fatalf("partition %s of %d is assigned to %s and %q", key, l.topics[topic],
						m.ID, other)
				}
				owners[key] = m.ID
			}
		}
	}
	want := 0
	for topic, subscribed := range subscribers(l.members, l.topics) {
		if len(subscribed) > 0 {
			want += l.topics[topic]
		}
	}
	if len(owners) != want || len(assigned) != len(l.members) {
		l.t.Fatalf("%d partitions are assigned to %d of %d members, want %d", len(owners),
			len(assigned), len(l.members), want)
	}
}

// kept returns the number of partitions that have the same owner as in the previous assignment.
func (l *history) kept(assigned map[string]Assignment) (n int) {
	for i := range l.members {
		for topic, partitions := range l.members[i].Current {
			for _, partition := range partitions {
				if assigned[l.members[i].ID].Has(topic, partition) {
					n++
				}
			}
		}
	}
	return n
}

// maxKept returns the largest possible result of kept if all members subscribe to the same topics.
// A member keeps at most its share. If the partitions cannot be divided evenly, some members'
// shares are larger by one.
func (l *history) maxKept() (n int) {
	total := 0
	for _, partitions := range l.topics {
		total += partitions
	}
	share, more := total/len(l.members), total%len(l.members)
	for i := range l.members {
		has := 0
		for topic, partitions := range l.members[i].Current {
			for _, partition := range partitions {
				if int(partition) < l.topics[topic] {
					has++
				}
			}
		}
		n += min(has, share)
		if has > share && more > 0 {
			more--
			n++
		}
	}
	return n
}

func (l *history) spread(assigned map[string]Assignment) int {
	least, most := 1<<30, 0
	for _, a := range assigned {
		least, most = min(least, a.Len()), max(most, a.Len())
	}
	return most - least
}

func eachHistory(t *testing.T, sameTopics bool, run func(l *history)) {
	for s := range seed.Sequence(t, *runs) {
		t.Run(fmt.Sprint("seed ", s), func(t *testing.T) {
			l := &history{t: t, random: rand.New(rand.NewPCG(s, 0)), sameTopics: sameTopics,
				topics: map[TopicID]int{id(0): 4}}
			for range 30 {
				l.change()
				if len(l.members) > 0 {
					run(l)
				}
			}
		})
	}
}

func (l *history) apply(assigned map[string]Assignment) {
	for i := range l.members {
		l.members[i].Current = assigned[l.members[i].ID]
	}
}

func TestUniformIsBalancedAndSticky(t *testing.T) {
	eachHistory(t, true, func(l *history) {
		assigned := Uniform(l.members, l.topics)
		l.wantValid(assigned)
		if d := l.spread(assigned); d > 1 {
			l.t.Fatalf("got loads that differ by %d, want at most 1", d)
		}
		if got, want := l.kept(assigned), l.maxKept(); got != want {
			l.t.Fatalf("got %d partitions that keep their owner, want %d", got, want)
		}
		l.apply(assigned)
		if again := Uniform(l.members, l.topics); !maps.EqualFunc(assigned, again,
			Assignment.Equal) {
			l.t.Fatal("assigning again moves partitions")
		}
	})
}

// TestUniformIsOptimalForAnySubscriptions checks that the sum of the squares of the members' loads
// is minimal for any subscriptions, by comparing it with the minimum over all possible assignments.
func TestUniformIsOptimalForAnySubscriptions(t *testing.T) {
	eachHistory(t, false, func(l *history) {
		assigned := Uniform(l.members, l.topics)
		l.wantValid(assigned)
		if best, known := l.leastSquares(); known {
			got := 0
			for _, a := range assigned {
				got += a.Len() * a.Len()
			}
			if got != best {
				l.t.Fatalf("sum of squares: got %d, want %d; members %+v, topics %v", got, best,
					l.members, l.topics)
			}
		}
		l.apply(assigned)
		if again := Uniform(l.members, l.topics); !maps.EqualFunc(assigned, again,
			Assignment.Equal) {
			l.t.Fatal("assigning again moves partitions")
		}
	})
}

// leastSquares tries all assignments and returns the minimal sum of the squares of the loads. known
// is false if there are too many assignments to try.
func (l *history) leastSquares() (best int, known bool) {
	all := subscribers(l.members, l.topics)
	order := slices.SortedFunc(maps.Keys(all), compareTopics)
	load, best, left := make([]int, len(l.members)), 1<<30, 5_000
	var try func(topic, member, partitions int)
	try = func(topic, member, partitions int) {
		if left--; left < 0 {
			return
		}
		if topic == len(order) {
			sum := 0
			for _, n := range load {
				sum += n * n
			}
			best = min(best, sum)
			return
		}
		subscribed := all[order[topic]]
		if member == len(subscribed)-1 {
			load[subscribed[member]] += partitions
			next := 0
			if topic+1 < len(order) {
				next = l.topics[order[topic+1]]
			}
			try(topic+1, 0, next)
			load[subscribed[member]] -= partitions
			return
		}
		for n := range partitions + 1 {
			load[subscribed[member]] += n
			try(topic, member+1, partitions-n)
			load[subscribed[member]] -= n
		}
	}
	first := 0
	if len(order) > 0 {
		first = l.topics[order[0]]
	}
	try(0, 0, first)
	return best, left >= 0
}

func TestRangeSizesDifferByAtMostOne(t *testing.T) {
	eachHistory(t, false, func(l *history) {
		assigned := Range(l.members, l.topics)
		l.wantValid(assigned)
		for topic, subscribed := range subscribers(ordered(l.members), l.topics) {
			next, members := 0, ordered(l.members)
			for i, index := range subscribed {
				partitions := assigned[members[index].ID][topic]
				want := l.topics[topic] / len(subscribed)
				if i < l.topics[topic]%len(subscribed) {
					want++
				}
				if len(partitions) != want || want > 0 &&
					(int(partitions[0]) != next || int(partitions[want-1]) != next+want-1) {
					l.t.Fatalf("subscriber %d of %d got %v, want %d starting at %d", i, len(subscribed),
						partitions, want, next)
				}
				next += want
			}
		}
	})
}

func TestUniformWithConflictingPreviousAssignments(t *testing.T) {
	both := Assignment{id(1): {0, 1}}
	assigned := Uniform([]Member{{ID: "a", Topics: []TopicID{id(1)}, Current: both},
		{ID: "b", Topics: []TopicID{id(1)}, Current: both}}, map[TopicID]int{id(1): 2})
	if assigned["a"].Len() != 1 || assigned["b"].Len() != 1 {
		t.Errorf("assignment %v, want one partition each", assigned)
	}
}

func TestAssignorsByName(t *testing.T) {
	for _, name := range Names() {
		if ByName(name) == nil {
			t.Errorf("no assignor %s", name)
		}
	}
	if ByName("sticky") != nil || len(Uniform(nil, nil)) != 0 || len(Range(nil, nil)) != 0 {
		t.Error("an unknown assignor exists, or an assignment without members is not empty")
	}
}

// BenchmarkUniformJoin computes the assignment after a member has joined a group of 999 members
// that consume 10,000 partitions of ten topics.
func BenchmarkUniformJoin(b *testing.B) {
	topics, all := map[TopicID]int{}, []TopicID(nil)
	for n := range 10 {
		topics[id(n)] = 1000
		all = append(all, id(n))
	}
	var members []Member
	for i := range 999 {
		members = append(members, Member{ID: fmt.Sprint("m", i), Topics: all})
	}
	assigned := Uniform(members, topics)
	for i := range members {
		members[i].Current = assigned[members[i].ID]
	}
	members = append(members, Member{ID: "new", Topics: all})
	for b.Loop() {
		Uniform(members, topics)
	}
}
