package health

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

func condition(kind, status, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason,
		Message: message}
}

// healthy returns a LogCluster without problems.
func healthy(conditions ...metav1.Condition) *v1alpha1.LogCluster {
	c := &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "main", Namespace: "here",
		Generation: 2}}
	c.Status.ObservedGeneration = 2
	c.Status.Conditions = append([]metav1.Condition{
		condition("Ready", "True", "Ready", ""), condition("Applied", "True", "Applied", ""),
		condition("Scaled", "True", "Scaled", ""),
		condition("RollingOut", "False", "Complete", ""),
		condition("CertificatesReady", "True", "CertificatesReady", ""),
	}, conditions...)
	return c
}

// volumeLost returns a LogCluster with a lost volume.
func volumeLost(reason string, lost v1alpha1.LostVolume) *v1alpha1.LogCluster {
	c := healthy(condition("VolumeLost", "True", reason, ""))
	lost.ClaimUID = "uid"
	c.Status.LostVolumes = []v1alpha1.LostVolume{lost}
	return c
}

func topic(problems []v1alpha1.PartitionProblem, conditions ...metav1.Condition) []v1alpha1.Topic {
	t := v1alpha1.Topic{ObjectMeta: metav1.ObjectMeta{Name: "tickets"}}
	t.Status.Problems, t.Status.Conditions = problems, conditions
	return []v1alpha1.Topic{t}
}

func TestHealthyClusterHasNoFindings(t *testing.T) {
	in := Input{Cluster: healthy(), Topics: topic(nil, condition("Ready", "True", "Ready", ""),
		condition("Replicated", "True", "InSync", ""),
		condition("Compacting", "False", "UpToDate", ""))}
	if got := Findings(in); len(got) != 0 || Degraded(got) {
		t.Errorf("findings %+v", got)
	}
}

// scope is the end of each command for the LogCluster that healthy returns.
const scope = " -n here --cluster main"

// TestFindings checks the findings for each input. They are written as severity, subject, reason
// and next step.
func TestFindings(t *testing.T) {
	lost := []v1alpha1.PartitionProblem{
		{Partition: 3, Reason: "ReplicaLost", Message: "gone", Consent: "d1"},
		{Partition: 1, Reason: "Reassigning", Message: "moving"},
	}
	paused := healthy()
	paused.Annotations = map[string]string{v1alpha1.AnnotationPaused: "true"}
	paused.Generation = 3
	removing := healthy()
	removing.Status.RetainedTopics = []v1alpha1.RetainedTopic{{Topic: "orders", Command: "remove"},
		{Topic: "old", Removing: true, WaitsFor: []int32{2}}}
	moving := healthy()
	moving.Status.Rebalance = &v1alpha1.RebalanceStatus{Phase: v1alpha1.RebalanceMoving}
	expired := func(ago time.Duration, conditions ...metav1.Condition) *v1alpha1.LogCluster {
		c := healthy()
		for _, condition := range conditions {
			meta.SetStatusCondition(&c.Status.Conditions, condition)
		}
		c.Status.NextCertificateExpiry = &v1alpha1.CertificateExpiry{Certificate: "peer.0",
			Time: metav1.NewTime(now.Add(-ago))}
		return c
	}
	later := func(ago time.Duration, observed int64) *v1alpha1.LogCluster {
		c := healthy()
		c.Generation, c.Status.Conditions[0].ObservedGeneration = 3, observed
		c.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl",
			Time: new(metav1.NewTime(now.Add(-ago)))}}
		return c
	}
	recent := later(time.Hour, 0)
	recent.Status.Conditions[1].LastTransitionTime = metav1.NewTime(now.Add(-time.Second))
	created := func(ago time.Duration) []v1alpha1.Topic {
		topics := topic(nil)
		topics[0].CreationTimestamp = metav1.NewTime(now.Add(-ago))
		return topics
	}
	waiting := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "main-broker-1"}}
	waiting.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "broker",
		State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}}
	creating := waiting.DeepCopy()
	creating.Status.ContainerStatuses[0].State.Waiting.Reason = "ContainerCreating"
	often := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "main-broker-2"}}
	often.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "broker", RestartCount: 3}}
	unscheduled := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "main-broker-0"}}
	unscheduled.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled,
		Status: corev1.ConditionFalse, Reason: "Unschedulable"}}
	user := v1alpha1.LogUser{ObjectMeta: metav1.ObjectMeta{Name: "app"}}
	user.Status.Conditions = []metav1.Condition{condition("Ready", "False", "NoListener", "")}
	for name, c := range map[string]struct {
		in       Input
		degraded bool
		want     []string
	}{
		"no status": {Input{Cluster: &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{
			Name: "main"}}}, true, []string{"critical LogCluster main NoStatus kubectl get " +
			"deployments --all-namespaces -l app.kubernetes.io/name=heartwood"}},
		"lost before moving": {Input{Cluster: healthy(), Topics: topic(lost,
			condition("Ready", "False", "PartitionsNotReady", ""))}, true, []string{
			"critical Partition tickets/3 ReplicaLost kubectl heartwood accept-loss tickets/3" + scope,
			"info Partition tickets/1 Reassigning "}},
		"leader with a failed disk": {Input{Cluster: healthy(), Topics: topic(
			[]v1alpha1.PartitionProblem{{Partition: 3, Reason: "LeaderFailed", Brokers: []int32{1}}},
			condition("Ready", "False", "PartitionsNotReady", ""))}, true, []string{"critical Partition tickets/3 LeaderFailed "}},
		"replicas behind, and Topics cannot be read": {Input{Cluster: healthy(condition("Replicated",
			"False", "UnderReplicated", ""))}, true,
			[]string{"warning LogCluster main UnderReplicated kubectl heartwood topics" + scope}},
		"replicas being copied": {Input{Cluster: healthy(condition("Replicated", "False",
			"Reassigning", ""))}, false,
			[]string{"info LogCluster main Reassigning kubectl heartwood topics" + scope}},
		"replicas of a Topic behind": {Input{Cluster: healthy(condition("Replicated", "False",
			"UnderReplicated", "")), Topics: topic(nil, condition("Replicated", "False",
			"UnderReplicated", ""))}, true, []string{"warning Topic tickets UnderReplicated "}},
		"lost CA, and all certificates are valid": {Input{Cluster: expired(-time.Hour*24*30,
			condition("CertificatesReady", "True", "CALost", ""))}, true,
			[]string{"warning LogCluster main CALost "}},
		"rolling": {Input{Cluster: healthy(condition("RollingOut", "True", "Restarting", ""))},
			false, []string{"info LogCluster main Restarting "}},
		"not approved": {Input{Cluster: healthy(condition("RollingOut", "True", "ApprovalRequired",
			""))}, false,
			[]string{"info LogCluster main ApprovalRequired kubectl heartwood approve" + scope}},
		"version skew": {Input{Cluster: healthy(condition("VersionSkew", "True", "BrokersAhead",
			""))}, true,
			[]string{"warning LogCluster main BrokersAhead kubectl heartwood brokers" + scope}},
		"stuck": {Input{Cluster: healthy(condition("RollingOut", "True", "Stuck", ""))}, true,
			[]string{"warning LogCluster main Stuck "}},
		"invalid spec": {Input{Cluster: healthy(condition("Applied", "False", "ApplyFailed", ""))},
			true, []string{"warning LogCluster main ApplyFailed kubectl edit logcluster main -n here"}},
		"paused": {Input{Cluster: paused}, false,
			[]string{"info LogCluster main Paused kubectl heartwood resume" + scope}},
		"later spec": {Input{Cluster: later(time.Second, 0)}, false,
			[]string{"info LogCluster main NotObserved "}},
		"later spec, and a condition has changed": {Input{Cluster: recent}, false,
			[]string{"info LogCluster main NotObserved "}},
		"later spec that is being applied": {Input{Cluster: later(time.Hour, 3)}, false,
			[]string{"info LogCluster main NotObserved "}},
		"later spec without an operator": {Input{Cluster: later(time.Hour, 0)}, true,
			[]string{"warning LogCluster main NotObserved " + checkOperator}},
		"draining": {Input{Cluster: healthy(condition("Scaled", "False", "Draining", ""))}, false,
			[]string{"info LogCluster main Draining "}},
		"replicas in one rack": {Input{Cluster: healthy(condition("Spread", "False",
			"ReplicasNotSpread", ""))}, true, []string{"warning LogCluster main ReplicasNotSpread "}},
		"unequal racks": {Input{Cluster: healthy(condition("Spread", "False", "BrokersNotSpread",
			""))}, false, []string{"info LogCluster main BrokersNotSpread "}},
		"clients blocked": {Input{Cluster: healthy(condition("ClientsFailing", "True",
			"ClientsBlocked", ""))}, true,
			[]string{"warning LogCluster main ClientsBlocked kubectl get logusers -n here"}},
		"no failing client": {Input{Cluster: healthy(condition("ClientsFailing", "False",
			"NoFailures", ""))}, false, nil},
		"full": {Input{Cluster: healthy(condition("StoragePressure", "True", "Reject", ""))}, true,
			[]string{"critical LogCluster main Reject kubectl heartwood top" + scope}},
		"filling": {Input{Cluster: healthy(condition("StoragePressure", "True", "Warn", ""))}, true,
			[]string{"warning LogCluster main Warn kubectl heartwood top" + scope}},
		"resizing": {Input{Cluster: healthy(condition("StorageResized", "False", "Resizing", ""))},
			false, []string{"info LogCluster main Resizing "}},
		"cannot grow": {Input{Cluster: healthy(condition("StorageResized", "False",
			"ClassCannotExpand", ""))}, true, []string{"warning LogCluster main ClassCannotExpand "}},
		"volume lost": {Input{Cluster: volumeLost("WaitingForConsent", v1alpha1.LostVolume{})}, true,
			[]string{"warning LogCluster main WaitingForConsent kubectl annotate " +
				"logclusters.heartwood.dev main -n here --overwrite heartwood.dev/replace-volume=uid"}},
		"last in sync": {Input{Cluster: volumeLost("LastInSyncReplica",
			v1alpha1.LostVolume{LastInSync: []string{"tickets/3"}})}, true,
			[]string{"critical LogCluster main LastInSyncReplica kubectl heartwood accept-loss " +
				"tickets/3" + scope}},
		"retained records": {Input{Cluster: volumeLost("LastInSyncReplica",
			v1alpha1.LostVolume{Retained: []string{"tickets/3"}})}, true,
			[]string{"critical LogCluster main LastInSyncReplica kubectl heartwood retained remove " +
				"-n here --cluster main tickets"}},
		"replacing": {Input{Cluster: volumeLost("ReplacingVolume",
			v1alpha1.LostVolume{Replacing: true})}, false,
			[]string{"info LogCluster main ReplacingVolume "}},
		"volumes present": {Input{Cluster: healthy(condition("VolumeLost", "False",
			"VolumesPresent", ""))}, false, nil},
		"drain blocked": {Input{Cluster: healthy(condition("Drained", "False", "DrainBlocked",
			""))}, true, []string{"warning LogCluster main DrainBlocked "}},
		"removing retained records": {Input{Cluster: removing}, false,
			[]string{"info LogCluster main RemovingRetained kubectl heartwood retained" + scope}},
		"moving": {Input{Cluster: moving}, false,
			[]string{"info LogCluster main Moving kubectl heartwood rebalance --cancel" + scope}},
		"replicas do not fit": {Input{Cluster: healthy(condition("Scaled", "False",
			"ReplicasDoNotFit", ""))}, true, []string{"warning LogCluster main ReplicasDoNotFit "}},
		"expired": {Input{Cluster: healthy(condition("CertificatesReady", "False",
			"CertificateExpired", ""))}, true,
			[]string{"critical LogCluster main CertificateExpired "}},
		"expired, with its condition": {Input{Cluster: expired(time.Hour, condition(
			"CertificatesReady", "False", "CertificateExpired", ""))}, true,
			[]string{"critical LogCluster main CertificateExpired "}},
		"expired, and the operator does not run": {Input{Cluster: expired(time.Hour)}, true,
			[]string{"critical LogCluster main CertificateExpired " + checkOperator}},
		"expires later": {Input{Cluster: expired(-time.Hour)}, false, nil},
		"pods": {Input{Cluster: healthy(), Pods: []corev1.Pod{waiting, *creating, often,
			unscheduled}}, true, []string{
			"warning Pod main-broker-1 ImagePullBackOff kubectl edit logcluster main -n here",
			"warning Pod main-broker-2 RestartedOften kubectl logs --previous main-broker-2 " +
				"-c broker -n here",
			"warning Pod main-broker-0 Unschedulable kubectl describe pod main-broker-0 -n here"}},
		"topic without problems listed": {Input{Cluster: healthy(), Topics: topic(nil,
			condition("Ready", "False", "TopicNameTaken", ""))}, true,
			[]string{"critical Topic tickets TopicNameTaken "}},
		"new Topic": {Input{Cluster: healthy(), Topics: created(time.Second)}, false,
			[]string{"info Topic tickets NoStatus "}},
		"Topic without an operator": {Input{Cluster: healthy(), Topics: created(time.Hour)}, true,
			[]string{"warning Topic tickets NoStatus " + checkOperator}},
		"quarantined": {Input{Cluster: healthy(), Topics: topic(nil, condition("Compacting", "False",
			"Quarantined", ""))}, true,
			[]string{"warning Topic tickets Quarantined kubectl heartwood why tickets" + scope}},
		"user": {Input{Cluster: healthy(), Users: []v1alpha1.LogUser{user}}, true,
			[]string{"warning LogUser app NoListener "}},
	} {
		var got []string
		c.in.Now = now
		findings := Findings(c.in)
		for _, f := range findings {
			got = append(got, strings.Join([]string{string(f.Severity), f.Subject, f.Reason,
				f.Next}, " "))
		}
		if diff := cmp.Diff(c.want, got); diff != "" || Degraded(findings) != c.degraded {
			t.Errorf("%s: degraded %t (-want +got):\n%s", name, Degraded(findings), diff)
		}
	}
}
