package placement

import (
	"cmp"
	"fmt"
	"slices"
)

// recordLoss records the loss of a broker's log before the broker registers.
func (s *simulation) recordLoss(id int32, a *simulatedBroker) {
	a.recordedAs = ""
	if !a.lost || !s.recordsLosses {
		return
	}
	concerned := a.lostIn
	if concerned == "" {
		concerned, a.recordedAs = s.partition.ReplicaIncarnations[id], s.nextIncarnation()
		s.partition = LoseLog(s.partition, id, concerned, a.recordedAs)
		return
	}
	s.partition = LoseLog(s.partition, id, concerned, s.nextIncarnation())
}

// unreported reports whether a broker has lost its log, and its last image does not yet show the
// loss. Such a broker neither leads nor follows.
func (a *simulatedBroker) unreported(id int32) bool {
	return a.lost && a.image.ReplicaIncarnations[id] == a.lostIn
}

// reportLoss makes a broker that has lost its log report the loss.
func (s *simulation) reportLoss(id int32, a *simulatedBroker) {
	if a.running && a.unreported(id) {
		s.partition = LoseLog(s.partition, id, a.lostIn, s.nextIncarnation())
	}
}

// removeFiles makes a stopped broker lose a part of its log, as if a person had removed files. The
// broker finds the loss at its next start.
func (s *simulation) removeFiles(a *simulatedBroker) {
	a.lost, a.lostIn = a.lost || len(a.log) > 0, ""
	a.log = a.log[:s.random.IntN(len(a.log)+1)]
	a.synced = min(a.synced, len(a.log))
}

// restartAll stops all brokers gracefully, makes one of them lose its log, and starts all of them
// in a random order. An election takes place after each start. Then all brokers report their
// losses.
func (s *simulation) restartAll(id int32) string {
	for _, a := range s.brokers {
		if a.running {
			a.CleanEpoch, a.running = a.Epoch, false
		}
		a.Leaving, a.Liveness = false, Down
	}
	s.removeFiles(s.brokers[id])
	// keeps is true if another in-sync replica has every record.
	keeps := slices.ContainsFunc(s.partition.ISR, func(m InSyncReplica) bool {
		b := s.brokers[m.Broker]
		return !b.lost && b.CleanEpoch == m.Epoch && b.Directory == m.Directory
	})
	did := fmt.Sprintf("all brokers restart, broker %d has lost its log", id)
	for _, next := range s.random.Perm(len(s.brokers)) {
		s.start(int32(next), s.brokers[next])
		s.fault = cmp.Or(s.fault, s.decide())
	}
	for id, a := range s.brokers {
		s.receive(int32(id), a)
		s.reportLoss(int32(id), a)
	}
	s.fault = cmp.Or(s.fault, s.decide())
	if s.recordsLosses && keeps && s.partition.Leader == NoLeader {
		s.fault = cmp.Or(s.fault, "no leader, although an in-sync replica has every record")
	}
	return did
}
