package topic

import (
	"fmt"
	"strings"
)

// fault returns why a replica is unavailable, as its broker has reported it in the current leader
// epoch. It returns "" if the replica is available, or if the broker has not reported it.
func (s *scope) fault(p *problem, broker int32) string {
	if s.report == nil {
		return ""
	}
	for _, row := range s.report.Rows[s.topic.KafkaName()] {
		if row.Broker == broker && row.Partition == p.partition &&
			row.LeaderEpoch == p.entry.State.LeaderEpoch {
			return strings.Join(strings.Fields(row.Fault), " ")
		}
	}
	return ""
}

// describeFailedLeader describes a partition whose leader reports why it does not serve.
func (s *scope) describeFailedLeader(p problem) string {
	leader := p.entry.State.Leader
	return fmt.Sprintf("Broker %d leads the partition and does not serve it: %s. No other replica "+
		"that is in sync can lead. If another broker copies the log, it leads once it is in sync; "+
		"otherwise remove the cause, and restart the broker. What to do is in "+
		"docs/operate/runbooks/HeartwoodPartitionOffline.md.", leader, s.fault(&p, leader))
}

// describeLagging describes a partition whose leader serves, but some of whose replicas are not in
// sync.
func (s *scope) describeLagging(p problem) string {
	ids := lagging(*p.entry.State)
	message := fmt.Sprintf("The replicas on brokers %v are not in sync: the brokers are down or are "+
		"copying records.", ids)
	var faults []string
	for _, id := range ids {
		if fault := s.fault(&p, id); fault != "" {
			faults = append(faults, fmt.Sprintf("broker %d: %s", id, fault))
		}
	}
	if len(faults) == 0 {
		return message
	}
	return fmt.Sprintf("The replicas on brokers %v are not in sync. Brokers report why they do not "+
		"follow: %s. What to do is in docs/operate/runbooks/HeartwoodPartitionOffline.md.", ids,
		strings.Join(faults, "; "))
}
