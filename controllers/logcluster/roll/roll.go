package roll

import (
	"cmp"

	"heartwood.dev/heartwood/controllers/conditions"
	"heartwood.dev/heartwood/controllers/logcluster/maystop"
	"heartwood.dev/heartwood/controllers/logcluster/memory"
	"heartwood.dev/heartwood/controllers/logcluster/outcome"
	"heartwood.dev/heartwood/controllers/logcluster/replace"
	"heartwood.dev/heartwood/controllers/reports"
	"heartwood.dev/heartwood/internal/metadata/partitionset/commit"

	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/logcluster/facts"
	"heartwood.dev/heartwood/internal/operator/rollout"
)

// DefaultSettleTime is the time for which a restarted broker must be ready before the next broker
// is restarted. It is about the time for which DNS caches keep the address of the broker's previous
// pod.
const DefaultSettleTime = 30 * time.Second

// Roller executes rolling updates.
type Roller struct {
	client.Client
	Writer  *commit.Writer
	Reports *reports.Collector
	Events  conditions.Recorder
	MayStop *maystop.Asker
	Replace *replace.Replacer
	// SettleTime is the time for which a restarted broker must be ready before the next broker is
	// restarted; 0: DefaultSettleTime.
	SettleTime time.Duration
	// Interval is the time between two attempts to continue a rolling update; 0: outcome.Interval.
	Interval time.Duration
}

// Next executes the next step of a rolling update, if there is one. It returns the decision. again
// is the time after which the next step is due; 0 if there is none.
func (r *Roller) Next(ctx context.Context, s *facts.Facts, m *memory.Memory,
	applied facts.Applied) (outcome.Step, time.Duration, error) {
	now := time.Now()
	state := s.RolloutState(applied)
	left := hold(s, applied, &state, now)
	again := cmp.Or(r.Interval, outcome.Interval)
	readySince := m.ObserveReady(s.Pods, now)
	for id, since := range readySince {
		left := cmp.Or(r.SettleTime, DefaultSettleTime) - now.Sub(since)
		if int(id) < len(state.Brokers) && left > 0 {
			state.Brokers[id].Settling = true
			again = min(again, left)
		}
	}
	taken := outcome.Step{Decision: rollout.Next(state)}
	lending, lent, err := r.lend(ctx, s, state, taken.Decision)
	if err != nil {
		return outcome.Step{}, 0, err
	}
	taken.Lending = lending
	if taken, next, handled, err := r.Replace.Next(ctx, s, m, applied, state,
		taken); handled || err != nil {
		return taken, min(again, next), err
	}
	switch taken.Phase {
	case rollout.Complete:
		if !lent {
			again = 0
		}
	case rollout.Held:
		taken.Held = outcome.HeldBy(s, taken.Hold)
		if !lent {
			again = outcome.HeldRequeue(left)
		}
	case rollout.Restart:
		var err error
		if taken.Refusal, err = r.restart(ctx, s, m, applied, taken.Broker,
			state); err != nil {
			return taken, 0, err
		}
	}
	return taken, again, nil
}

// restart deletes a broker's pod, unless a broker refuses the restart. The StatefulSet controller
// creates the pod again. restart returns the reason for the refusal, or "". If it returns an error,
// refusal describes this error.
func (r *Roller) restart(ctx context.Context, s *facts.Facts, m *memory.Memory,
	applied facts.Applied, id int32, state rollout.State) (refusal string, err error) {
	pod := s.Pod(id)
	if pod == nil || pod.DeletionTimestamp != nil {
		return "", nil // the cache is outdated
	}
	// The other brokers are not asked about a broker that is down: it serves no clients, and if the
	// whole cluster is down, no broker could answer.
	if broker := state.Brokers[id]; broker.Ready || broker.Up {
		if refusal = r.MayStop.Ask(ctx, s, id); refusal != "" {
			return refusal, nil
		}
	}
	if err := r.Delete(ctx, pod.DeepCopy(),
		client.Preconditions{UID: &pod.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Sprintf("The operator failed to delete pod %s, which restarts broker %d: %v.",
			pod.Name, id, err), fmt.Errorf("restart broker %d: %w", id, err)
	}
	m.Restarted = pod.UID
	r.Events.Normal(s.Cluster, v1alpha1.EventRestarting, "Restart", "Restarting broker %d: %s.", id,
		restartTexts[s.RestartReason(pod, id, applied)])
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
