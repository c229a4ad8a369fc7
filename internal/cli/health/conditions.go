package health

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// rule determines when a condition of a LogCluster is a finding.
type rule struct {
	healthy   bool // status of the condition when the LogCluster is healthy
	otherwise Severity
	reasons   map[string]Severity // severities by reason, where they differ from otherwise
	// notable is a reason that makes even a healthy condition a finding; "": none.
	notable string
	// next returns a command that helps, or "". If next is nil, there is none.
	next func(c *v1alpha1.LogCluster, reason string) string
}

// rules are the rules by condition type.
var rules = map[string]rule{
	v1alpha1.ConditionReady: {healthy: true, otherwise: Warning, next: command("brokers")},
	v1alpha1.ConditionReplicated: {healthy: true, otherwise: Warning,
		reasons: map[string]Severity{v1alpha1.ReasonReassigning: Info}, next: command("topics")},
	v1alpha1.ConditionApplied: {healthy: true, otherwise: Warning,
		reasons: map[string]Severity{v1alpha1.ReasonApplying: Info},
		next: func(c *v1alpha1.LogCluster, _ string) string {
			return scoped(c, "kubectl edit logcluster "+c.Name)
		}},
	v1alpha1.ConditionCertificatesReady: {healthy: true, otherwise: Warning,
		notable: v1alpha1.ReasonCALost,
		reasons: map[string]Severity{v1alpha1.ReasonCertificateExpired: Critical}},
	v1alpha1.ConditionListenersReady: {healthy: true, otherwise: Warning},
	v1alpha1.ConditionScaled: {healthy: true, otherwise: Info,
		reasons: map[string]Severity{v1alpha1.ReasonReplicasDoNotFit: Warning,
			v1alpha1.ReasonDisksDoNotFit: Warning}},
	v1alpha1.ConditionDrained: {healthy: true, otherwise: Info,
		reasons: map[string]Severity{v1alpha1.ReasonDrainBlocked: Warning}},
	v1alpha1.ConditionSpread: {healthy: true, otherwise: Info, // only a change of the nodes helps
		reasons: map[string]Severity{v1alpha1.ReasonReplicasNotSpread: Warning}},
	v1alpha1.ConditionStorageResized: {healthy: true, otherwise: Warning,
		reasons: map[string]Severity{v1alpha1.ReasonResizing: Info}},
	v1alpha1.ConditionVersionSkew: {otherwise: Warning, next: command("brokers")},
	v1alpha1.ConditionStoragePressure: {otherwise: Warning,
		reasons: map[string]Severity{v1alpha1.PressureReject: Critical,
			v1alpha1.PressureReserve: Critical},
		next: command("top")},
	v1alpha1.ConditionVolumeLost: {otherwise: Warning,
		reasons: map[string]Severity{v1alpha1.ReasonLastInSyncReplica: Critical,
			v1alpha1.ReasonReplacingVolume: Info},
		next: replaceVolume},
	v1alpha1.ConditionClientsFailing: {otherwise: Warning,
		next: func(c *v1alpha1.LogCluster, _ string) string {
			return scoped(c, "kubectl get logusers")
		}},
	v1alpha1.ConditionRollingOut: {otherwise: Info,
		reasons: map[string]Severity{v1alpha1.ReasonStuck: Warning}, next: approve},
}

// concerns reports whether a condition is a finding. Status Unknown is a finding only for condition
// VolumeLost, where it means that the operator cannot read the volumes. Condition Applied is
// ignored while the LogCluster is paused, because the pause is a separate finding.
func (r *rule) concerns(condition *metav1.Condition) bool {
	if r.notable != "" && condition.Reason == r.notable {
		return true
	}
	switch condition.Status {
	case metav1.ConditionTrue:
		return !r.healthy
	case metav1.ConditionFalse:
		return r.healthy && condition.Reason != v1alpha1.ReasonPaused
	}
	return condition.Type == v1alpha1.ConditionVolumeLost
}

func (r *rule) severity(reason string) Severity {
	if severity, ok := r.reasons[reason]; ok {
		return severity
	}
	return r.otherwise
}

// scoped adds the flags for the namespace and, for kubectl heartwood, the LogCluster to a command,
// so that it applies to the LogCluster whatever the current namespace is.
func scoped(c *v1alpha1.LogCluster, command string) string {
	command += " -n " + c.Namespace
	if strings.HasPrefix(command, "kubectl heartwood ") {
		command += " --cluster " + c.Name
	}
	return command
}

// command returns a function that always returns the given command of kubectl heartwood.
func command(name string) func(*v1alpha1.LogCluster, string) string {
	return func(c *v1alpha1.LogCluster, _ string) string {
		return scoped(c, "kubectl heartwood "+name)
	}
}

func approve(c *v1alpha1.LogCluster, reason string) string {
	if reason == v1alpha1.ReasonApprovalRequired {
		return scoped(c, "kubectl heartwood approve")
	}
	return ""
}

// replaceVolume returns the command for the first lost volume that needs an administrator's action,
// or "" if there is none. The commands from package v1alpha1 already contain the namespace.
func replaceVolume(c *v1alpha1.LogCluster, _ string) string {
	for _, v := range c.Status.LostVolumes {
		switch {
		case v.Replacing:
		case len(v.LastInSync) > 0:
			return scoped(c, "kubectl heartwood accept-loss "+v.LastInSync[0])
		case len(v.Retained) == 0:
			return v1alpha1.ReplaceVolumeCommand(c, v.ClaimUID)
		default:
			return v1alpha1.RemoveRetainedCommand(c, v.Retained[0][:strings.LastIndexByte(v.Retained[0],
				'/')])
		}
	}
	return ""
}
