package logcluster

import (
	"cmp"
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/keyed"
	"heartwood.dev/heartwood/controllers/owned"
	"heartwood.dev/heartwood/internal/operator/render"
	"heartwood.dev/heartwood/internal/operator/rollout"
)

// stuckAfter is the time after which a rolling update that waits for the same broker or partition
// is reported as stuck.
const stuckAfter = 10 * time.Minute

// restartsWithin is the time after which the message about a broker that is being restarted says
// that its pod is not ready.
const restartsWithin = time.Minute

// step is a step of a rolling update.
type step struct {
	rollout.Decision
	refusal string // why brokers refused the restart; "" if they did not
	held    held   // with phase Held
	volume  string // describes the replacement of a volume, if this is the step; or ""
	lending string // describes the loans of replicas for which the restart waits; or ""
}

// outcome is the result of Reconciler's last reconciliation of a LogCluster.
type outcome struct {
	generation int64  // that was applied, or whose apply failed
	failure    string // error of the apply; "" after success
	foreign    bool   // failure says that a foreign object has the name of one of the LogCluster's
	paused     bool
	applying   string // what the replacement of the StatefulSet waits for; "" if it is applied
	storage    storage
	// decided is true if step was decided. If an apply fails before, RollingOut stays as it is.
	decided bool
	step    step
	since   time.Time // when the rolling update began to wait for what it waits for now
	// restarts is true from the decision that brokers have an outdated pod until all pods are ready.
	restarts bool
}

// waitsLike reports whether two steps wait for the same broker or partition. The texts of refusals
// are not compared, because each attempt may be refused by another broker.
func (s step) waitsLike(other step) bool {
	if s.refusal != "" && other.refusal != "" {
		s.refusal = other.refusal
	}
	return s == other
}

// fail stores the error of an apply.
func (o *outcome) fail(err error) {
	o.failure, o.foreign = err.Error(), false
	if foreign := owned.AsForeign(err); foreign != nil {
		o.failure, o.foreign = foreign.Message(), true
	}
}

// complete reports whether the spec is applied and every broker runs the latest template.
func (o outcome) complete() bool {
	return o.failure == "" && o.applying == "" && !o.paused && o.step.Phase == rollout.Complete
}

// Outcomes passes the results of Reconciler to StatusReconciler, which is the only writer of the
// status. After a restart of the operator the conditions keep their values until every LogCluster
// has been reconciled once.
type Outcomes struct{ last keyed.Map[outcome] }

// put stores an outcome. It reports whether the status depends on the difference to the last one.
func (o *Outcomes) put(key types.NamespacedName, now outcome, at time.Time) (changed bool) {
	last, known := o.last.Get(key)
	if !now.decided {
		now.decided, now.step = last.decided, last.step
	}
	now.since = at
	if known && last.step.waitsLike(now.step) {
		now.since = last.since
	}
	now.restarts = now.step.Outdated > 0 || last.restarts && now.step.Phase != rollout.Complete
	o.last.Set(key, now)
	return !known || !reflect.DeepEqual(last, now) || now.step.Phase != rollout.Complete &&
		at.Sub(now.since) >= restartsWithin
}

// stuck reports whether the rolling update has waited for too long.
func (o outcome) stuck(at time.Time) bool {
	return o.step.Phase != rollout.Complete && o.step.Phase != rollout.Held &&
		at.Sub(o.since) >= stuckAfter
}

// describe adds conditions Applied, StorageResized and RollingOut to a status. It sets
// ObservedGeneration to the generation that was applied last.
func (o outcome) describe(s *scope, status *v1alpha1.LogClusterStatus, now time.Time) {
	if o.generation == s.cluster.Generation && o.failure == "" && o.applying == "" && !o.paused {
		status.ObservedGeneration = s.cluster.Generation
	}
	all := []metav1.Condition{o.appliedCondition(), o.storage.condition()}
	if o.applying == "" && o.decided { // else no restart was decided, and RollingOut stays
		all = append(all, o.rollingOutCondition(s, status.Conditions, now))
	}
	for _, condition := range all {
		condition.ObservedGeneration = o.generation
		meta.SetStatusCondition(&status.Conditions, condition)
	}
}

// appliedCondition returns condition Applied.
func (o outcome) appliedCondition() metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.ConditionApplied, Status: metav1.ConditionTrue,
		Reason:  v1alpha1.ReasonApplied,
		Message: "The objects of the LogCluster are as its spec requests."}
	switch {
	case o.foreign:
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonObjectNameTaken
		condition.Message = o.failure
	case o.failure != "":
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonApplyFailed
		condition.Message = fmt.Sprintf("The operator failed to %s. It retries; correct the spec "+
			"if the error is about it.", o.failure)
	case o.paused:
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonPaused
		condition.Message = pausedMessage
	case o.applying != "":
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonApplying
		condition.Message = "The StatefulSet is being replaced, because the templates of its volume " +
			"claims have changed. The brokers continue to run. " + o.applying
	}
	return condition
}

const pausedMessage = "The annotation " + v1alpha1.AnnotationPaused +
	" pauses changes of the LogCluster's objects and restarts of its brokers. Leaders are still " +
	"elected. Remove the annotation to continue."

// rollingOutCondition returns condition RollingOut.
func (o outcome) rollingOutCondition(s *scope, before []metav1.Condition,
	now time.Time) metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.ConditionRollingOut,
		Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonWaiting}
	wasRolling := o.restarts || restartsIn(before)
	switch {
	case o.paused && (o.step.Outdated > 0 || wasRolling && o.step.Phase != rollout.Complete):
		condition.Reason, condition.Message = v1alpha1.ReasonPaused, pausedMessage
	case o.step.Phase == rollout.Complete, o.paused, !wasRolling && o.step.Outdated == 0 &&
		(o.step.Broker >= 0 || s.brokers.UID == ""):
		// A broker that is not ready although no restart is pending is no rolling update, and
		// neither is the creation of a LogCluster; Ready reports them.
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonComplete
		condition.Message = "Every broker runs the latest pod template."
	case o.step.Phase == rollout.Held:
		condition.Reason = o.step.held.reason
		condition.Message = cmp.Or(o.step.volume, o.remaining()) + " " + o.step.held.text
	case o.step.Phase == rollout.Restart && o.step.refusal == "" && o.step.volume != "":
		condition.Reason, condition.Message = v1alpha1.ReasonRestarting, o.step.volume
	case o.step.Phase == rollout.Restart && o.step.refusal == "", o.starts(s, now):
		condition.Reason = v1alpha1.ReasonRestarting
		condition.Message = fmt.Sprintf("Broker %d is being restarted. %s", o.step.Broker,
			o.remaining())
	default:
		switch {
		case o.stuck(now):
			condition.Reason = v1alpha1.ReasonStuck
		case o.step.Broker < 0:
			condition.Reason = v1alpha1.ReasonObserving
		}
		condition.Message = o.waits(s)
		if o.step.Broker >= 0 && o.step.volume == "" {
			condition.Message = o.remaining() + " " + condition.Message
		}
	}
	return condition
}

// restartsIn reports whether the conditions of a status say that brokers are being restarted. With
// reason Observing it is not known yet whether the StatefulSet has another template, or another
// number of brokers.
func restartsIn(before []metav1.Condition) bool {
	c := meta.FindStatusCondition(before, v1alpha1.ConditionRollingOut)
	return c != nil && c.Status == metav1.ConditionTrue && c.Reason != v1alpha1.ReasonObserving
}

// starts reports whether the rolling update waits for a broker that was restarted a short time ago.
func (o outcome) starts(s *scope, now time.Time) bool {
	if o.step.Phase != rollout.Waiting || o.step.Broker < 0 || o.step.Partition != "" ||
		o.step.refusal != "" || o.step.lending != "" || o.step.volume != "" ||
		now.Sub(o.since) >= restartsWithin {
		return false
	}
	pod := s.pod(o.step.Broker)
	return pod == nil || !podReady(pod)
}

// remaining says how many brokers the rolling update will restart.
func (o outcome) remaining() string {
	return fmt.Sprintf("Brokers with an outdated pod: %d.", o.step.Outdated)
}

// waits says what the rolling update waits for.
func (o outcome) waits(s *scope) string {
	switch {
	case o.step.refusal != "":
		return o.step.refusal
	case o.step.volume != "":
		return o.step.volume
	case o.step.lending != "":
		return o.step.lending
	case o.step.Partition != "":
		return fmt.Sprintf("Broker %d waits for its restart: without it, partition %s has too few "+
			"in-sync replicas.", o.step.Broker, o.step.Partition)
	case o.step.Broker < 0:
		return "The StatefulSet controller has not observed the latest pod template yet."
	}
	pod := s.pod(o.step.Broker)
	if pod == nil {
		return fmt.Sprintf("Kubernetes has not created the pod of broker %d. For details run: "+
			"kubectl describe statefulset -n %s %s", o.step.Broker, s.cluster.Namespace,
			render.BrokersName(s.cluster.Name))
	}
	if podReady(pod) {
		return fmt.Sprintf("Broker %d is ready; the next broker follows when clients know its "+
			"address.", o.step.Broker)
	}
	return fmt.Sprintf("Broker %d has the latest pod template and is not ready. For details run: "+
		"kubectl describe pod -n %s %s", o.step.Broker, s.cluster.Namespace,
		v1alpha1.BrokerLeaseName(s.cluster.Name, o.step.Broker))
}
