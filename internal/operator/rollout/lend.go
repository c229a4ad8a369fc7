package rollout

import (
	"cmp"
	"slices"
	"strings"
)

// Loan is a temporary second replica of a partition with one replica. It keeps the partition
// available while the broker with the partition's own replica is restarted.
type Loan struct {
	Partition string
	Home      int32 // broker with the partition's own replica
	Host      int32 // broker with the lent replica
	// Left is the number of bytes that the lent replica has not copied yet.
	Left int64
}

// Single is a partition with one replica and no loan.
type Single struct {
	Partition string
	Home      int32
	Bytes     int64 // size of the partition; negative if unknown
}

// Host is a broker that can hold lent replicas.
type Host struct {
	Receives bool  // permission to receive replicas
	Leaves   bool  // true if all replicas must leave the broker
	Free     int64 // number of bytes that replicas may add to its volume
}

// Lending contains the current loans, and the partitions and brokers for further loans.
type Lending struct {
	Loans   []Loan
	Singles []Single
	Hosts   []Host // by id
}

// LendingObstacle is the reason why a replica cannot be lent.
type LendingObstacle int

const (
	// NoObstacle means that all required replicas are lent.
	NoObstacle LendingObstacle = iota
	// NoHost means that no other broker is up and able to receive replicas.
	NoHost
	// NoSpace means that no broker that can receive replicas has space for the partition.
	NoSpace
	// UnknownSize means that the size of the partition has not been reported.
	UnknownSize
)

// LendingDecision contains the loans that begin and that end.
type LendingDecision struct {
	Begin, End []Loan
	// Lender is the broker whose partitions have loans, or will have them, before it restarts; -1 if
	// there is none.
	Lender    int32
	Obstacle  LendingObstacle
	Partition string // partition to which no replica can be lent, if there is an obstacle
}

// Lend returns the loans that begin and that end, given the decision of Next about restarts.
//
// A loan begins when only partitions with one replica prevent the restart of a broker, and no other
// broker is being restarted. All loans of a broker begin together. If one of them cannot begin,
// none of them begins, and the next broker is considered. While a broker that must be restarted has
// loans, no other broker gets loans.
//
// A loan ends when its home serves again and is settled. It also ends when the restart of its home
// is no longer due, because the update was reverted, or must wait for approval or for a window. If
// all replicas must leave its host, the loan ends, and a new loan begins on another host. A loan
// does not end while its home is down, because then only the host has the records.
func Lend(s State, l Lending, next Decision) LendingDecision {
	d := LendingDecision{Lender: -1}
	if !s.Observed {
		return d
	}
	var kept []Loan
	for _, loan := range l.Loans {
		if s.ends(loan, l.Hosts) {
			d.End = append(d.End, loan)
		} else {
			kept = append(kept, loan)
		}
	}
	if !s.Lends || next.Phase != Waiting || s.unsettled() >= 0 {
		return d
	}
	for _, id := range s.lenders(kept) {
		begin, obstacle, partition := s.loansOf(id, kept, l)
		if obstacle == NoObstacle {
			d.Begin, d.Lender, d.Obstacle, d.Partition = begin, id, NoObstacle, ""
			return d
		}
		if d.Obstacle == NoObstacle {
			d.Lender, d.Obstacle, d.Partition = id, obstacle, partition
		}
	}
	return d
}

// ends reports whether a loan ends now.
func (s State) ends(loan Loan, hosts []Host) bool {
	if int(loan.Home) >= len(s.Brokers) {
		return false // removed brokers are handled by the assignment controller
	}
	home := s.Brokers[loan.Home]
	if !home.Ready || !home.Up || home.Settling {
		return false
	}
	due := s.Lends && !home.Updated && home.Hold == NoHold
	return !due || int(loan.Host) < len(hosts) && hosts[loan.Host].Leaves
}

// lenders returns the brokers whose restarts wait for loans. If one of them already has loans,
// lenders returns only that broker.
func (s State) lenders(loans []Loan) (ids []int32) {
	for _, id := range s.outdated() {
		if s.Brokers[id].Hold != NoHold {
			continue
		}
		if slices.ContainsFunc(loans, func(loan Loan) bool { return loan.Home == id }) {
			return []int32{id}
		}
		if name, single := s.blocking(id); name != "" && single {
			ids = append(ids, id)
		}
	}
	return ids
}

// loansOf returns the loans that a broker needs in addition to its current loans.
func (s State) loansOf(home int32, present []Loan, l Lending) (begin []Loan,
	obstacle LendingObstacle, partition string) {
	c := chooser{State: s, hosts: slices.Clone(l.Hosts), count: make([]int, len(l.Hosts))}
	for _, loan := range present {
		c.take(loan)
	}
	singles := slices.DeleteFunc(slices.Clone(l.Singles),
		func(single Single) bool { return single.Home != home })
	// Place large partitions first, because it is harder to find space for them.
	slices.SortFunc(singles, func(a, b Single) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.Partition, b.Partition))
	})
	for _, single := range singles {
		if single.Bytes < 0 {
			return nil, UnknownSize, single.Partition
		}
		host, why := c.choose(single)
		if why != NoObstacle {
			return nil, why, single.Partition
		}
		loan := Loan{Partition: single.Partition, Home: home, Host: host, Left: single.Bytes}
		c.take(loan)
		begin = append(begin, loan)
	}
	return begin, NoObstacle, ""
}

// chooser chooses the hosts of loans.
type chooser struct {
	State
	hosts []Host
	count []int // number of loans of each host
}

// take records that a loan uses its host.
func (c *chooser) take(loan Loan) {
	if int(loan.Host) < len(c.hosts) {
		c.hosts[loan.Host].Free -= loan.Left
		c.count[loan.Host]++
	}
}

// choose returns the host for a partition. It prefers a broker that will not be restarted later,
// then the broker with the fewest loans, and then the broker with the most space.
func (c *chooser) choose(single Single) (host int32, obstacle LendingObstacle) {
	host, obstacle = -1, NoHost
	for i := range min(len(c.hosts), len(c.Brokers)) {
		id, b := int32(i), c.Brokers[i]
		if id == single.Home || !c.hosts[i].Receives || c.hosts[i].Leaves || !b.Ready || !b.Up {
			continue
		}
		if c.hosts[i].Free < single.Bytes {
			if obstacle == NoHost {
				obstacle = NoSpace
			}
			continue
		}
		if host < 0 || c.better(id, host) {
			host, obstacle = id, NoObstacle
		}
	}
	return host, obstacle
}

func (c *chooser) better(a, b int32) bool {
	if c.Brokers[a].Updated != c.Brokers[b].Updated {
		return c.Brokers[a].Updated
	}
	return cmp.Or(cmp.Compare(c.count[a], c.count[b]),
		cmp.Compare(c.hosts[b].Free, c.hosts[a].Free)) < 0
}
