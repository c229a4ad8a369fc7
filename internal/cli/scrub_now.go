package cli

import (
	"context"
	"fmt"
	"time"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// scrubNow requests a check of a topic, or of all files if topic is empty. If wait is set, it waits
// until the check has ended.
func (s *session) scrubNow(ctx context.Context, cluster *v1alpha1.LogCluster, topic string,
	wait bool) error {
	if err := scrubEnabled(cluster); err != nil {
		return err
	}
	value, subject := "kubectl-"+stamp(), "everything"
	if topic != "" {
		value, subject = topic+"="+value, topic
	}
	if err := annotate(ctx, s, cluster, v1alpha1.AnnotationScrubNow, value); err != nil {
		return err
	}
	if wait {
		return s.awaitScrub(ctx, cluster.Name, topic, value)
	}
	if s.json() {
		return printJSON(s.out, map[string]string{"cluster": cluster.Name, "topic": topic,
			"value": value})
	}
	_, err := fmt.Fprintf(s.out, "%s: requested; kubectl heartwood scrub shows the progress\n",
		subject)
	return err
}

// scrubEnabled returns an error if the scrub is disabled in the LogCluster.
func scrubEnabled(cluster *v1alpha1.LogCluster) error {
	if spec := cluster.Spec.Scrub; spec != nil && spec.Interval == v1alpha1.ScrubNever {
		return fmt.Errorf("the scrub of LogCluster %s is off: set spec.scrub.interval to a duration, "+
			"such as 168h", cluster.Name)
	}
	return nil
}

// awaitScrub waits until the status shows that every broker has completed the request, and prints
// the progress of each broker.
func (s *session) awaitScrub(ctx context.Context, name, topic, value string) error {
	printed := map[int32]string{}
	for {
		cluster := &v1alpha1.LogCluster{}
		if err := s.get(ctx, "LogCluster", name, cluster); err != nil {
			return err
		}
		if _, present := cluster.ScrubNow(); present != value {
			return fmt.Errorf("wait for LogCluster %s: another scrub was requested", name)
		}
		if err := scrubEnabled(cluster); err != nil {
			return fmt.Errorf("%w; the request remains", err)
		}
		rows := scrubRows(cluster, topic)
		done := len(rows) >= int(cluster.Spec.Brokers)
		for _, b := range rows {
			step := scrubStep(b, value)
			done = done && step == scrubDone
			if step != printed[b.ID] && !s.json() {
				printed[b.ID] = step
				_, _ = fmt.Fprintf(s.out, "broker %d: %s\n", b.ID, step)
			}
		}
		if done {
			return s.printScrub(s.out, cluster, topic)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the scrub, which continues: %w", ctx.Err())
		case <-time.After(time.Second):
		}
	}
}

// scrubDone is the progress of a broker that has completed the request.
const scrubDone = "checked"

// scrubStep returns a broker's progress in the request with the given value.
func scrubStep(b brokerScrub, value string) string {
	served := b.Scrub != nil && b.Scrub.Requested == value &&
		b.Scrub.RequestState == v1alpha1.ScrubRequestDone
	switch {
	case served:
		return scrubDone
	case !b.Ready:
		return "waiting until the broker is ready"
	case b.Scrub != nil && b.Scrub.Requested == value &&
		b.Scrub.RequestState == v1alpha1.ScrubRequestRunning:
		return "checking"
	}
	return "waiting"
}
