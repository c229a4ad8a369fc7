package outcome

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
	"heartwood.dev/heartwood/controllers/logcluster/facts"
	"heartwood.dev/heartwood/controllers/owned"
	"heartwood.dev/heartwood/internal/operator/render"
	"heartwood.dev/heartwood/internal/operator/rollout"
)

// stuckAfter is the time after which a rolling update is reported as stuck if it has waited for the
// same broker or partition all the time.
const stuckAfter = 10 * time.Minute

// restartsWithin is the time for which a broker counts as being restarted. After this time, the
// message says that the broker's pod is not ready.
const restartsWithin = time.Minute

// Step is a step of a rolling update.
type Step struct {
	rollout.Decision
	Refusal string // reason why the brokers refuse the restart; "" if they do not
	Held    Held   // description of the hold in phase Held
	Volume  string // replacement of a volume, if that is this step; otherwise ""
	Lending string // loans of replicas for which the restart waits; "" if it waits for none
}

// Outcome is the result of Reconciler's last reconciliation of a LogCluster.
type Outcome struct {
	Generation int64  // generation that was applied, or whose apply failed
	Failure    string // error of applying the objects; "" after success
	Foreign    bool   // true if a foreign object has the name of an object of the LogCluster
	Paused     bool
	Applying   string // description of the StatefulSet's replacement; "" if the StatefulSet is applied
	Storage    Storage
	// Decided is true if Step was decided. If the apply fails before the decision, condition
	// RollingOut does not change.
	Decided bool
	Step    Step
	since   time.Time // time since which the rolling update has been waiting for the same thing
	// restarts becomes true with the decision that brokers have an outdated pod, and stays true until
	// all pods are ready.
	restarts bool
}

// waitsLike reports whether two steps wait for the same broker or partition. It does not compare
// the texts of refusals, because each attempt can be refused by another broker.
func (s Step) waitsLike(other Step) bool {
	if s.Refusal != "" && other.Refusal != "" {
		s.Refusal = other.Refusal
	}
	return s == other
}

// Fail stores the error of applying the objects.
func (o *Outcome) Fail(err error) {
	o.Failure, o.Foreign = err.Error(), false
	if foreign := owned.AsForeign(err); foreign != nil {
		o.Failure, o.Foreign = foreign.Message(), true
	}
}

// Complete reports whether the spec is applied and every broker runs the latest template.
func (o Outcome) Complete() bool {
	return o.Failure == "" && o.Applying == "" && !o.Paused && o.Step.Phase == rollout.Complete
}

// Outcomes passes the results of Reconciler to StatusReconciler, which is the only writer of the
// status. After a restart of the operator, the conditions keep their values until every LogCluster
// has been reconciled once.
type Outcomes struct{ last keyed.Map[Outcome] }

// Get returns the outcome of a LogCluster; false if there is none yet.
func (o *Outcomes) Get(key types.NamespacedName) (Outcome, bool) { return o.last.Get(key) }

// Forget removes the outcome of a LogCluster that no longer exists.
func (o *Outcomes) Forget(key types.NamespacedName) { o.last.Delete(key) }

// Put stores an outcome. It reports whether the difference from the last outcome affects the
// status.
func (o *Outcomes) Put(key types.NamespacedName, now Outcome, decided time.Time) (changed bool) {
	last, known := o.last.Get(key)
	if !now.Decided {
		now.Decided, now.Step = last.Decided, last.Step
	}
	now.since = decided
	if known && last.Step.waitsLike(now.Step) {
		now.since = last.since
	}
	now.restarts = now.Step.Outdated > 0 || last.restarts && now.Step.Phase != rollout.Complete
	o.last.Set(key, now)
	return !known || !reflect.DeepEqual(last, now) || now.Step.Phase != rollout.Complete &&
		decided.Sub(now.since) >= restartsWithin
}

// stuck reports whether the rolling update has waited for too long.
func (o Outcome) stuck(now time.Time) bool {
	return o.Step.Phase != rollout.Complete && o.Step.Phase != rollout.Held &&
		now.Sub(o.since) >= stuckAfter
}

// Describe adds conditions Applied, StorageResized and RollingOut to a status. It sets
// ObservedGeneration to the generation that was applied last.
func (o Outcome) Describe(s *facts.Facts, status *v1alpha1.LogClusterStatus, now time.Time) {
	if o.Generation == s.Cluster.Generation && o.Failure == "" && o.Applying == "" && !o.Paused {
		status.ObservedGeneration = s.Cluster.Generation
	}
	all := []metav1.Condition{o.appliedCondition(), o.Storage.condition()}
	// otherwise RollingOut stays as it is, because no restart was decided
	if o.Applying == "" && o.Decided {
		all = append(all, o.rollingOutCondition(s, status.Conditions, now))
	}
	for _, condition := range all {
		condition.ObservedGeneration = o.Generation
		meta.SetStatusCondition(&status.Conditions, condition)
	}
}

// appliedCondition returns condition Applied.
func (o Outcome) appliedCondition() metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.ConditionApplied, Status: metav1.ConditionTrue,
		Reason:  v1alpha1.ReasonApplied,
		Message: "The objects of the LogCluster are as its spec requests."}
	switch {
	case o.Foreign:
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonObjectNameTaken
		condition.Message = o.Failure
	case o.Failure != "":
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonApplyFailed
		condition.Message = fmt.Sprintf("The operator failed to %s. It retries; correct the spec "+
			"if the error is about it.", o.Failure)
	case o.Paused:
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonPaused
		condition.Message = pausedMessage
	case o.Applying != "":
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonApplying
		condition.Message = "The StatefulSet is being replaced, because the templates of its volume " +
			"claims have changed. The brokers continue to run. " + o.Applying
	}
	return condition
}

const pausedMessage = "The annotation " + v1alpha1.AnnotationPaused +
	" pauses changes of the LogCluster's objects and restarts of its brokers. Leaders are still " +
	"elected. Remove the annotation to continue."

// rollingOutCondition returns condition RollingOut.
func (o Outcome) rollingOutCondition(s *facts.Facts, before []metav1.Condition,
	now time.Time) metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.ConditionRollingOut,
		Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonWaiting}
	wasRolling := o.restarts || restartsIn(before)
	switch {
	case o.Paused && (o.Step.Outdated > 0 || wasRolling && o.Step.Phase != rollout.Complete):
		condition.Reason, condition.Message = v1alpha1.ReasonPaused, pausedMessage
	case o.Step.Phase == rollout.Complete, o.Paused, !wasRolling && o.Step.Outdated == 0 &&
		(o.Step.Broker >= 0 || s.Brokers.UID == ""):
		// A broker that is not ready while no restart is pending does not count as a rolling update, and
		// neither does the creation of a LogCluster. Condition Ready reports both.
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonComplete
		condition.Message = "Every broker runs the latest pod template."
	case o.Step.Phase == rollout.Held:
		condition.Reason = o.Step.Held.reason
		condition.Message = cmp.Or(o.Step.Volume, o.remaining()) + " " + o.Step.Held.text
	case o.Step.Phase == rollout.Restart && o.Step.Refusal == "" && o.Step.Volume != "":
		condition.Reason, condition.Message = v1alpha1.ReasonRestarting, o.Step.Volume
	case o.Step.Phase == rollout.Restart && o.Step.Refusal == "", o.starts(s, now):
		condition.Reason = v1alpha1.ReasonRestarting
		condition.Message = fmt.Sprintf("Broker %d is being restarted. %s", o.Step.Broker,
			o.remaining())
	default:
		switch {
		case o.stuck(now):
			condition.Reason = v1alpha1.ReasonStuck
		case o.Step.Broker < 0:
			condition.Reason = v1alpha1.ReasonObserving
		}
		condition.Message = o.waits(s)
		if o.Step.Broker >= 0 && o.Step.Volume == "" {
			condition.Message = o.remaining() + " " + condition.Message
		}
	}
	return condition
}

// restartsIn reports whether a status's conditions say that brokers are being restarted. With
// reason Observing, it is not yet known whether the StatefulSet has another template or only
// another number of brokers.
func restartsIn(before []metav1.Condition) bool {
	c := meta.FindStatusCondition(before, v1alpha1.ConditionRollingOut)
	return c != nil && c.Status == metav1.ConditionTrue && c.Reason != v1alpha1.ReasonObserving
}

// starts reports whether the rolling update waits for a broker that was restarted a short time ago.
func (o Outcome) starts(s *facts.Facts, now time.Time) bool {
	if o.Step.Phase != rollout.Waiting || o.Step.Broker < 0 || o.Step.Partition != "" ||
		o.Step.Refusal != "" || o.Step.Lending != "" || o.Step.Volume != "" ||
		now.Sub(o.since) >= restartsWithin {
		return false
	}
	pod := s.Pod(o.Step.Broker)
	return pod == nil || !facts.PodReady(pod)
}

// remaining returns a sentence with the number of brokers that the rolling update will restart.
func (o Outcome) remaining() string {
	return fmt.Sprintf("Brokers with an outdated pod: %d.", o.Step.Outdated)
}

// waits describes what the rolling update waits for.
func (o Outcome) waits(s *facts.Facts) string {
	switch {
	case o.Step.Refusal != "":
		return o.Step.Refusal
	case o.Step.Volume != "":
		return o.Step.Volume
	case o.Step.Lending != "":
		return o.Step.Lending
	case o.Step.Partition != "":
		return fmt.Sprintf("Broker %d waits for its restart: without it, partition %s has too few "+
			"in-sync replicas.", o.Step.Broker, o.Step.Partition)
	case o.Step.Broker < 0:
		return "The StatefulSet controller has not observed the latest pod template yet."
	}
	pod := s.Pod(o.Step.Broker)
	if pod == nil {
		return fmt.Sprintf("Kubernetes has not created the pod of broker %d. For details run: "+
			"kubectl describe statefulset -n %s %s", o.Step.Broker, s.Cluster.Namespace,
			render.BrokersName(s.Cluster.Name))
	}
	if facts.PodReady(pod) {
		return fmt.Sprintf("Broker %d is ready; the next broker follows when clients know its "+
			"address.", o.Step.Broker)
	}
	return fmt.Sprintf("Broker %d has the latest pod template and is not ready. For details run: "+
		"kubectl describe pod -n %s %s", o.Step.Broker, s.Cluster.Namespace,
		v1alpha1.BrokerLeaseName(s.Cluster.Name, o.Step.Broker))
}
