package placement

import "errors"

// ErrNotEnoughBrokers is wrapped when a partition wants more replicas than there are brokers.
var ErrNotEnoughBrokers = errors.New("not enough brokers")

// Broker is a broker that may hold replicas.
type Broker struct {
	ID   int32
	Rack string
}

// Assign places partitions existing..existing+count-1 of a topic, each on replicas brokers, the preferred leader first. Load
// (replicas a broker holds already, by id) evens out the choice; racks are spread over. The result is a function of its
// arguments alone.
func Assign(brokers []Broker, load map[int32]int, existing, count, replicas int) ([][]int32, error) {
	panic("unwritten")
}

// Candidate is what an election looks at.
type Candidate struct {
	Replicas []int32 // the preferred leader first
	ISR      []int32
	Leader   int32 // -1: none
}

// Elect returns the leader a partition should have: the present one while it lives, else the first replica that is alive and
// in sync; -1 if there is none. changed tells whether that is a new election.
func Elect(c Candidate, alive func(broker int32) bool) (leader int32, changed bool) {
	panic("unwritten")
}
