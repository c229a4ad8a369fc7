package health

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// Severity is how urgent a Finding is.
type Severity string

// Severities, the most urgent first. Critical: requests of clients fail, or data is at risk.
// Warning: an administrator should act, or there is less redundancy than the resources request.
// Info: work is in progress.
const (
	Critical Severity = "critical"
	Warning  Severity = "warning"
	Info     Severity = "info"
)

var severities = []Severity{Critical, Warning, Info}

// Finding describes one difference between the state and what the resources request.
type Finding struct {
	Severity Severity `json:"severity"`
	Subject  string   `json:"subject"` // such as "Topic tickets"
	Reason   string   `json:"reason"`
	Message  string   `json:"message"`
	// Next is a command that helps, or "".
	Next string `json:"next,omitempty"`
	// Brokers are the brokers that a partition waits for.
	Brokers []int32 `json:"brokers,omitempty"`
	// Consequences are the findings that end when this finding ends.
	Consequences []Finding `json:"consequences,omitempty"`
}

func newFinding(severity Severity, subject, reason, message, next string) Finding {
	return Finding{Severity: severity, Subject: subject, Reason: reason, Message: message, Next: next}
}

// Input contains the resources from which the findings are derived. A nil slice means that the
// resources could not be read.
type Input struct {
	Cluster *v1alpha1.LogCluster
	Topics  []v1alpha1.Topic
	Users   []v1alpha1.LogUser
	Pods    []corev1.Pod // pods of the brokers
	Now     time.Time
}

// checkOperator is the command that shows whether the operator runs.
const checkOperator = "kubectl get deployments --all-namespaces -l app.kubernetes.io/name=heartwood"

// Findings returns the findings, the most severe first.
func Findings(in Input) []Finding {
	findings := group(in, slices.Concat(
		cluster(in.Cluster, slices.ContainsFunc(in.Topics, lacksReplicas)), unobserved(in),
		certificates(in), Pods(in), damage(in.Cluster), Topics(in), users(in.Users)))
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Compare(slices.Index(severities, a.Severity),
			slices.Index(severities, b.Severity))
	})
	return findings
}

// Degraded reports whether a finding is more severe than Info.
func Degraded(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Severity != Info })
}

// lacksReplicas reports whether the findings about the Topic already contain its under-replicated
// partitions.
func lacksReplicas(topic v1alpha1.Topic) bool {
	return meta.IsStatusConditionFalse(topic.Status.Conditions, v1alpha1.ConditionReplicated)
}

// cluster returns the findings from a LogCluster's conditions. It omits condition Replicated if the
// findings of Topics explain it.
func cluster(c *v1alpha1.LogCluster, explained bool) []Finding {
	var found []Finding
	if len(c.Status.Conditions) == 0 {
		return []Finding{newFinding(Critical, "LogCluster "+c.Name, "NoStatus",
			"The operator has not written a status: it does not run, or does not watch this "+
				"namespace.", checkOperator)}
	}
	for i := range c.Status.Conditions {
		condition := &c.Status.Conditions[i]
		if explained && condition.Type == v1alpha1.ConditionReplicated {
			continue
		}
		if f, concerns := ofCondition(c, condition); concerns {
			found = append(found, f)
		}
	}
	found = append(found, replicas(c)...)
	if c.Paused() {
		found = append(found, newFinding(Info, "LogCluster "+c.Name, v1alpha1.ReasonPaused,
			"Changes and restarts are paused by the annotation "+v1alpha1.AnnotationPaused+".",
			scoped(c, "kubectl heartwood resume")))
	}
	return found
}

// Storage returns the finding from a LogCluster's condition StoragePressure, if there is one.
func Storage(c *v1alpha1.LogCluster) []Finding {
	condition := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionStoragePressure)
	if condition == nil {
		return nil
	}
	if f, concerns := ofCondition(c, condition); concerns {
		return []Finding{f}
	}
	return nil
}

// ofCondition returns the finding from a LogCluster's condition, and whether there is one.
func ofCondition(c *v1alpha1.LogCluster, condition *metav1.Condition) (f Finding, concerns bool) {
	rule, known := rules[condition.Type]
	if !known || !rule.concerns(condition) {
		return f, false
	}
	f = newFinding(rule.severity(condition.Reason), "LogCluster "+c.Name, condition.Reason,
		condition.Message, "")
	if rule.next != nil {
		f.Next = rule.next(c, condition.Reason)
	}
	return f, true
}

// replicas returns the findings about replicas that are being moved or removed.
func replicas(c *v1alpha1.LogCluster) []Finding {
	var found []Finding
	if r := c.Status.Rebalance; r != nil && r.Phase.Active() {
		found = append(found, newFinding(Info, "LogCluster "+c.Name, string(r.Phase), fmt.Sprintf(
			"Replicas are being moved: %d of %d moves done. %s", r.MovesDone, r.Moves, r.Message),
			scoped(c, "kubectl heartwood rebalance --cancel")))
	}
	for _, r := range c.Status.RetainedTopics {
		if r.Removing {
			found = append(found, newFinding(Info, "LogCluster "+c.Name, v1alpha1.EventRemovingRetained,
				fmt.Sprintf("Brokers %v delete the retained records of the deleted topic %s.", r.WaitsFor,
					r.Topic), scoped(c, "kubectl heartwood retained")))
		}
	}
	return found
}

// Topics returns the findings about Topics.
func Topics(in Input) []Finding {
	var found []Finding
	for i := range in.Topics {
		c, topic := in.Cluster, &in.Topics[i]
		if len(topic.Status.Conditions) == 0 {
			found = append(found, noStatus(topic, in.Now))
		}
		problems := partitions(c, topic)
		found = append(found, problems...)
		for _, condition := range topic.Status.Conditions {
			if f, ok := topicCondition(c, topic, condition, len(problems) > 0); ok {
				found = append(found, f)
			}
		}
	}
	return found
}

// noStatus returns the finding for a Topic without a status. Its severity is Info for a new Topic.
func noStatus(topic *v1alpha1.Topic, now time.Time) Finding {
	f := newFinding(Warning, "Topic "+topic.Name, "NoStatus",
		"The operator has not written a status of the Topic.", checkOperator)
	if now.Sub(topic.CreationTimestamp.Time) < statusDelay {
		f.Severity, f.Next = Info, ""
	}
	return f
}

// partitions returns the findings about a Topic's partitions.
func partitions(c *v1alpha1.LogCluster, topic *v1alpha1.Topic) []Finding {
	var found []Finding
	for _, p := range topic.Status.Problems {
		name := fmt.Sprintf("%s/%d", topic.Name, p.Partition)
		f := newFinding(Warning, "Partition "+name, p.Reason, p.Message, "")
		f.Brokers = p.Brokers
		switch p.Reason {
		case v1alpha1.ReasonReplicaLost, v1alpha1.ReasonInvalidEntry, v1alpha1.ReasonLeaderOffline,
			v1alpha1.ReasonLeaderFailed:
			f.Severity = Critical
			if p.Consent != "" {
				f.Next = scoped(c, "kubectl heartwood accept-loss "+name)
			}
		case v1alpha1.ReasonReassigning, v1alpha1.ReasonUnassigned:
			f.Severity = Info
		}
		found = append(found, f)
	}
	return found
}

// topicCondition returns the finding from a Topic's condition. It omits conditions Ready and
// Replicated if there are findings about the partitions.
func topicCondition(c *v1alpha1.LogCluster, topic *v1alpha1.Topic, condition metav1.Condition,
	explained bool) (Finding, bool) {
	f := newFinding(Warning, "Topic "+topic.Name, condition.Reason, condition.Message, "")
	isFalse := condition.Status == metav1.ConditionFalse
	switch condition.Type {
	case v1alpha1.ConditionReady:
		f.Severity = Critical
		return f, isFalse && !explained
	case v1alpha1.ConditionReplicated:
		if condition.Reason == v1alpha1.ReasonReassigning {
			f.Severity = Info
		}
		return f, isFalse && !explained
	case v1alpha1.ConditionCompacting:
		f.Next = scoped(c, "kubectl heartwood why "+topic.Name)
		switch condition.Reason {
		case v1alpha1.ReasonQuarantined:
			return f, true
		case v1alpha1.ReasonBlockedByOpenTransaction:
			f.Severity = Info
			return f, true
		}
	}
	return Finding{}, false
}

// users returns the findings about LogUsers.
func users(users []v1alpha1.LogUser) []Finding {
	var found []Finding
	for i := range users {
		ready := meta.FindStatusCondition(users[i].Status.Conditions, v1alpha1.ConditionReady)
		if ready != nil && ready.Status == metav1.ConditionFalse {
			found = append(found, newFinding(Warning, "LogUser "+users[i].Name, ready.Reason,
				ready.Message, ""))
		}
	}
	return found
}
