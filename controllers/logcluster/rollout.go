package logcluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/operator/rollout"
	"heartwood.dev/heartwood/internal/placement"
)

// defaultSettleTime is the time for which a restarted broker must be ready before the next broker
// is restarted. It is about the time for which DNS caches keep the address of the broker's previous
// pod.
const defaultSettleTime = 30 * time.Second

// rolloutInterval is the default time between two attempts to continue a rolling update.
const rolloutInterval = 5 * time.Second

// roll executes the next step of a rolling update, if there is one. It returns the decision, and
// the time after which the next step is due; 0 if there is none.
func (r *Reconciler) roll(ctx context.Context, s *scope) (step, time.Duration, error) {
	now := time.Now()
	state := s.rolloutState()
	left := hold(s, &state, now)
	again := r.RolloutInterval
	readySince := r.ready.observe(client.ObjectKeyFromObject(s.cluster), s.pods, now)
	for id, since := range readySince {
		if left := r.SettleTime - now.Sub(since); int(id) < len(state.Brokers) && left > 0 {
			state.Brokers[id].Settling = true
			again = min(again, left)
		}
	}
	taken := step{Decision: rollout.Next(state)}
	lending, lent, err := r.lend(ctx, s, state, taken.Decision)
	if err != nil {
		return step{}, 0, err
	}
	taken.lending = lending
	if taken, next, handled, err := r.nextVolume(ctx, s, state, taken); handled || err != nil {
		return taken, min(again, next), err
	}
	switch taken.Phase {
	case rollout.Complete:
		if !lent {
			again = 0
		}
	case rollout.Held:
		taken.held = heldBy(s, taken.Hold)
		if !lent {
			again = heldRequeue(left)
		}
	case rollout.Restart:
		var err error
		if taken.refusal, err = r.restart(ctx, s, taken.Broker, state); err != nil {
			return taken, 0, err
		}
	}
	return taken, again, nil
}

// restart deletes the pod of a broker, unless a broker refuses. The StatefulSet controller creates
// it again. It returns the refusal, or "". With an error, the refusal describes it.
func (r *Reconciler) restart(ctx context.Context, s *scope, id int32,
	state rollout.State) (refusal string, err error) {
	pod := s.pod(id)
	if pod == nil || pod.DeletionTimestamp != nil {
		return "", nil // the cache is outdated
	}
	// A broker that is down serves nobody: whether it may stop is no question, and in a cluster
	// that is down nobody could answer it.
	if broker := state.Brokers[id]; broker.Ready || broker.Up {
		if refusal = r.mayStop(ctx, s, id); refusal != "" {
			return refusal, nil
		}
	}
	if err := r.Delete(ctx, pod.DeepCopy(),
		client.Preconditions{UID: &pod.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Sprintf("The operator failed to delete pod %s, which restarts broker %d: %v.",
			pod.Name, id, err), fmt.Errorf("restart broker %d: %w", id, err)
	}
	r.restarted.Set(client.ObjectKeyFromObject(s.cluster), pod.UID)
	r.Events.Normal(s.cluster, v1alpha1.EventRestarting, "Restart", "Restarting broker %d: %s.", id,
		restartTexts[s.restartReason(pod, id)])
	return "", nil
}

// restartTexts explains the values of BrokerStatus.RestartReason.
var restartTexts = map[string]string{
	v1alpha1.RestartTemplateChanged: "its pod has an earlier template",
	v1alpha1.RestartRequested: "the annotation " + v1alpha1.AnnotationRestart +
		" requests it",
	v1alpha1.RestartVolumeResized: "its volume has grown, and its file system grows when its pod " +
		"starts",
}

// restartReason says why the pod of a broker is restarted.
func (s *scope) restartReason(pod *corev1.Pod, id int32) string {
	switch {
	case s.requested(pod):
		return v1alpha1.RestartRequested
	case s.volumes.Restarts[id]:
		return v1alpha1.RestartVolumeResized
	}
	return v1alpha1.RestartTemplateChanged
}

// requested reports whether the annotation of a pod, or that of the LogCluster, requests its
// restart.
func (s *scope) requested(pod *corev1.Pod) bool {
	return restartsPod(pod) || pod.Annotations[v1alpha1.AnnotationRestartedFor] !=
		s.brokers.Spec.Template.Annotations[v1alpha1.AnnotationRestartedFor]
}

// restartsPod reports whether the annotation of a pod requests its restart.
func restartsPod(pod *corev1.Pod) bool { return pod.Annotations[v1alpha1.AnnotationRestart] != "" }

// rolloutState returns the state of a rolling update. A missing pod, and one that is being deleted,
// is created from the latest template.
func (s *scope) rolloutState() rollout.State {
	status := s.brokers.Status
	running := s.drain().brokers
	state := rollout.State{
		Brokers: make([]rollout.Broker, running),
		Observed: s.brokers.UID != "" && s.brokers.DeletionTimestamp == nil &&
			status.UpdateRevision != "" && status.ObservedGeneration >= s.brokers.Generation && s.containsApplied(),
		Partitions: s.stops(), Lends: s.cluster.Spec.Rollout.LendsReplicas(),
	}
	leaders := s.leaders()
	for id := range state.Brokers {
		state.Brokers[id] = rollout.Broker{Updated: true, Up: s.up[int32(id)],
			Leaders: leaders[int32(id)]}
	}
	for i := range s.pods {
		pod := &s.pods[i]
		_, id, ok := v1alpha1.ParseBrokerLeaseName(pod.Name)
		if !ok || id >= running {
			continue
		}
		b := &state.Brokers[id]
		b.Ready = podReady(pod)
		b.Updated = pod.DeletionTimestamp != nil || !restartsPod(pod) && !s.volumes.Restarts[id] &&
			pod.Labels[appsv1.ControllerRevisionHashLabelKey] == status.UpdateRevision
	}
	return state
}

// stops returns the partitions of existing Topics.
func (s *scope) stops() []rollout.Partition {
	tags, minISR := s.topicTags(), make(map[string]int, len(s.topics))
	lends := map[string]bool{}
	for i := range s.topics {
		topic := &s.topics[i]
		minISR[topic.Name], lends[topic.Name] = 1, s.lendsTo(topic)
		settings, err := metadata.SettingsOf(topic, s.cluster)
		if err == nil {
			minISR[topic.Name] = settings.MinInSyncReplicas
		}
	}
	var all []rollout.Partition
	for key, entry := range s.sets.All() {
		if entry.State == nil || !entry.BelongsTo(tags[key.Topic]) {
			continue
		}
		stop := placement.Stop{Replicas: entry.State.Replicas, MinISR: minISR[key.Topic]}
		for _, member := range entry.State.ISR {
			stop.InSync = append(stop.InSync, member.Broker)
		}
		all = append(all, rollout.Partition{Name: key.String(), Stop: stop,
			// a partition without a leader cannot be copied, and serves nobody
			Lend: lends[key.Topic] && entry.State.Leader != placement.NoLeader})
	}
	return all
}

// leaders returns the number of partitions that each broker leads.
func (s *scope) leaders() map[int32]int {
	leaders := map[int32]int{}
	for _, entry := range s.sets.All() {
		if entry.State != nil && entry.State.Leader != placement.NoLeader {
			leaders[entry.State.Leader]++
		}
	}
	return leaders
}

// containsApplied reports whether the cache contains the StatefulSet as it was applied.
func (s *scope) containsApplied() bool {
	return s.applied == nil || s.applied.UID == s.brokers.UID &&
		s.brokers.Generation >= s.applied.Generation
}

// removePod removes a pod that was deleted, if the cache still contains it.
func (s *scope) removePod(uid types.UID) {
	s.pods = slices.DeleteFunc(s.pods, func(pod corev1.Pod) bool { return pod.UID == uid })
}

// pod returns the pod of a broker, or nil.
func (s *scope) pod(id int32) *corev1.Pod {
	for i := range s.pods {
		if _, of, ok := v1alpha1.ParseBrokerLeaseName(s.pods[i].Name); ok && of == id {
			return &s.pods[i]
		}
	}
	return nil
}
