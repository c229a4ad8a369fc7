package reachability

import (
	"maps"
	"slices"
	"time"
)

// HealedAfter is how long an isolated broker must reach enough other brokers before it is no longer
// isolated. It limits how often an unstable connection moves leaders.
const HealedAfter = 10 * time.Second

// Broker is a live broker, as the input of Isolation.
type Broker struct {
	Peer
	// Report contains the peers that the broker cannot reach. The caller sets it only if the broker
	// has published it recently.
	Report Report
	// Isolated is true if the broker is currently isolated.
	Isolated bool
}

// Isolation determines which brokers of a cluster are isolated. Its only state is the time since
// which each isolated broker reaches enough others. If that state is lost, isolated brokers remain
// isolated for another HealedAfter. The zero value is ready for use.
type Isolation struct {
	healed map[Peer]time.Time
}

// Decide returns the brokers that are isolated now, sorted. Parameter brokers contains the live
// brokers. Another call with the same arguments has the same result.
//
// Two brokers are disconnected if one of them reports the other, because one direction of a
// connection is useless without the other direction. A broker is cut off if it is disconnected from
// a majority of the other brokers that are not cut off. A cut-off broker becomes isolated if more
// than half of the live brokers remain. If a network partition divides the brokers into equal
// parts, none becomes isolated, because it is unknown which part the clients can reach.
func (s *Isolation) Decide(brokers []Broker, now time.Time) []Peer {
	cutOff := cutOff(brokers)
	next := map[Peer]time.Time{}
	var isolated []Peer
	for _, b := range brokers {
		if !b.Isolated {
			continue
		}
		if !slices.Contains(cutOff, b.Peer) {
			since, known := s.healed[b.Peer]
			if !known {
				since = now
			}
			next[b.Peer] = since // keep the time until the caller has stored the decision
			if now.Sub(since) >= HealedAfter {
				continue
			}
		}
		isolated = append(isolated, b.Peer)
	}
	for _, p := range cutOff {
		if !slices.Contains(isolated, p) && 2*(len(brokers)-len(isolated)-1) > len(brokers) {
			isolated = append(isolated, p)
		}
	}
	s.healed = next
	slices.SortFunc(isolated, Peer.compare)
	return isolated
}

// cutOff returns the brokers that are cut off, the worst first. It repeatedly removes the broker
// with the most broken connections, until no remaining broker has lost the connections to a
// majority of the others. It returns nil if at most half of the brokers would remain.
func cutOff(brokers []Broker) (all []Peer) {
	remaining := map[Peer]Broker{}
	for _, b := range brokers {
		remaining[b.Peer] = b
	}
	for {
		worst, most := Broker{}, 0
		for _, p := range slices.SortedFunc(maps.Keys(remaining), Peer.compare) {
			b, broken := remaining[p], disconnected(remaining, remaining[p])
			// If two brokers are equally disconnected, choose the one that is already isolated, so that it
			// remains isolated.
			if broken > most || broken == most && broken > 0 && (b.Isolated || !worst.Isolated) {
				worst, most = b, broken
			}
		}
		if 2*most <= len(remaining)-1 {
			return all
		}
		delete(remaining, worst.Peer)
		all = append(all, worst.Peer)
		if 2*len(remaining) <= len(brokers) {
			return nil
		}
	}
}

// disconnected returns the number of other brokers from which a broker is disconnected.
func disconnected(brokers map[Peer]Broker, b Broker) (count int) {
	for _, other := range brokers {
		if areDisconnected(b, other) {
			count++
		}
	}
	return count
}

// Disconnected returns the brokers from which a broker is disconnected.
func Disconnected(brokers []Broker, b Broker) (from Report) {
	for _, other := range brokers {
		if areDisconnected(b, other) {
			from = append(from, other.Peer)
		}
	}
	slices.SortFunc(from, Peer.compare)
	return from
}

// areDisconnected reports whether one of the two brokers reports the other.
func areDisconnected(a, b Broker) bool {
	return a.Peer != b.Peer && (a.Report.Contains(b.Peer) || b.Report.Contains(a.Peer))
}
