package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// consequencesMax is the maximum number of subjects that Caused names for each reason.
const consequencesMax = 3

// Caused returns a description of the finding's consequences in one line, or "" if there are none.
func (f *Finding) Caused() string {
	var texts []string
	for _, reason := range reasons(f.Consequences) {
		var subjects []string
		for i := range f.Consequences {
			if f.Consequences[i].Reason == reason {
				subjects = append(subjects, f.Consequences[i].Subject)
			}
		}
		if more := len(subjects) - consequencesMax; more > 0 {
			subjects = append(subjects[:consequencesMax], fmt.Sprintf("%d more", more))
		}
		texts = append(texts, reason+" ("+strings.Join(subjects, ", ")+")")
	}
	return strings.Join(texts, ", ")
}

// reasons returns the distinct reasons of findings, in the order of their first occurrence.
func reasons(findings []Finding) (found []string) {
	for i := range findings {
		if !slices.Contains(found, findings[i].Reason) {
			found = append(found, findings[i].Reason)
		}
	}
	return found
}

// group moves the consequences of a broker that is down into the finding that explains why it is
// down. That finding is about the pod that does not start or, if there is none, about the
// LogCluster's condition Ready. Without grouping, one broker that is down would cause a finding for
// every partition with a replica on it. The explaining finding becomes as severe as its worst
// consequence.
func group(in Input, findings []Finding) []Finding {
	down := downBrokers(in, findings)
	if len(down) == 0 {
		return findings
	}
	causes := causesOf(in, down, findings)
	var grouped []Finding
	for i := range findings {
		if cause := causes.of(i, &findings[i]); cause != nil {
			cause.Consequences = append(cause.Consequences, findings[i])
			cause.Severity = severities[min(slices.Index(severities, cause.Severity),
				slices.Index(severities, findings[i].Severity))]
		}
	}
	for i := range findings {
		if causes.of(i, &findings[i]) == nil {
			grouped = append(grouped, findings[i])
		}
	}
	return grouped
}

// downBrokers returns the ids of the brokers that are not ready according to the status or their
// pods.
func downBrokers(in Input, findings []Finding) []int32 {
	var down []int32
	for id := range in.Cluster.Spec.Brokers {
		index := slices.IndexFunc(in.Cluster.Status.Brokers,
			func(b v1alpha1.BrokerStatus) bool { return b.ID == id })
		if index < 0 || !in.Cluster.Status.Brokers[index].Ready ||
			slices.ContainsFunc(findings, ofPod(in, id)) {
			down = append(down, id)
		}
	}
	return down
}

// ofPod returns a function that selects the findings about a broker's pod.
func ofPod(in Input, broker int32) func(Finding) bool {
	return func(f Finding) bool {
		return f.Subject == "Pod "+v1alpha1.BrokerLeaseName(in.Cluster.Name, broker)
	}
}

// causes contains the findings that explain why brokers are down.
type causes struct {
	all     bool               // all brokers are down
	brokers map[int32]*Finding // findings by the id of the broker that is down
	indexes map[int]bool       // indexes of the causes in all findings
}

func causesOf(in Input, down []int32, findings []Finding) causes {
	c := causes{all: len(down) == int(in.Cluster.Spec.Brokers), brokers: map[int32]*Finding{},
		indexes: map[int]bool{}}
	ready := slices.IndexFunc(findings,
		func(f Finding) bool { return f.Reason == v1alpha1.ReasonBrokersNotReady })
	for _, id := range down {
		index := slices.IndexFunc(findings, ofPod(in, id))
		if index < 0 {
			index = ready
		}
		if index >= 0 {
			c.brokers[id], c.indexes[index] = &findings[index], true
		}
	}
	return c
}

// of returns the cause of finding f, which has the given index. It returns nil if f is not
// explained by a broker that is down, or needs an action of its own.
func (c *causes) of(index int, f *Finding) *Finding {
	if c.indexes[index] || len(c.brokers) == 0 {
		return nil
	}
	switch f.Reason {
	case v1alpha1.ReasonBrokersNotReady, v1alpha1.ReasonStuck:
		return c.first()
	case v1alpha1.ReasonAddressPending, v1alpha1.ReasonBootstrapPending:
		if c.all {
			return c.first()
		}
	case v1alpha1.ReasonUnderReplicated, v1alpha1.ReasonLeaderOffline,
		v1alpha1.ReasonLeaderStarting:
		if f.Next == "" && len(f.Brokers) > 0 && !slices.ContainsFunc(f.Brokers,
			func(id int32) bool { return c.brokers[id] == nil }) {
			return c.brokers[slices.Min(f.Brokers)]
		}
	}
	return nil
}

// first returns the finding that explains why the broker with the lowest id is down.
func (c *causes) first() *Finding {
	lowest := int32(-1)
	for id := range c.brokers {
		if lowest < 0 || cmp.Less(id, lowest) {
			lowest = id
		}
	}
	return c.brokers[lowest]
}
