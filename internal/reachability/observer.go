package reachability

import (
	"slices"
	"time"
)

const (
	// PingInterval is how often a broker pings each peer and calls Observer.Tick.
	PingInterval = time.Second
	// UnreachableAfter is the time without an answer after which a peer counts as unreachable. It is
	// long enough for two pings on a busy machine. It is much shorter than the default time after
	// which a leader removes a follower that does not fetch, because a leader that has removed all its
	// followers from the ISR has no possible successor.
	UnreachableAfter = 3 * time.Second
	// firstAnswerWithin replaces UnreachableAfter for a peer that has not answered yet. It is longer
	// because a broker registers shortly before it serves requests.
	firstAnswerWithin = 10 * time.Second
)

// Observer records the answers of a broker's peers. The zero value is ready for use.
type Observer struct {
	peers  map[Peer]*observed
	ticked time.Time // time of the last Tick
}

// observed is an Observer's knowledge about one peer.
type observed struct {
	last     time.Time // of the last answer; before the first answer, of the first Tick with the peer
	answered bool
}

// Answered records an answer from a peer. It ignores peers that were not passed to the last Tick.
func (o *Observer) Answered(p Peer, now time.Time) {
	if known := o.peers[p]; known != nil {
		known.last, known.answered = now, true
	}
}

// Tick returns the peers that are unreachable. Parameter peers contains the peers that the broker
// pings.
//
// If much more than PingInterval has passed since the last Tick, this process did not run, and its
// peers may have answered in that time. Tick ignores that time.
func (o *Observer) Tick(peers []Peer, now time.Time) Report {
	missed := time.Duration(0)
	if since := now.Sub(o.ticked); !o.ticked.IsZero() && since >= 2*PingInterval {
		missed = since - PingInterval
	}
	o.ticked = now
	next := make(map[Peer]*observed, len(peers))
	var report Report
	for _, p := range peers {
		known := o.peers[p]
		if known == nil {
			known = &observed{last: now}
		} else if missed > 0 {
			known.last = minTime(known.last.Add(missed), now)
		}
		next[p] = known
		limit := UnreachableAfter
		if !known.answered {
			limit = firstAnswerWithin
		}
		if now.Sub(known.last) >= limit {
			report = append(report, p)
		}
	}
	o.peers = next
	slices.SortFunc(report, Peer.compare)
	return slices.Compact(report)
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
