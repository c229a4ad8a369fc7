package rebalance

import (
	"fmt"
	"strings"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// holdPrefix is the beginning of the text that hold adds to a message.
const holdPrefix = "No run begins while the annotation "

// pauses describes the annotation that pauses the run in progress, and how to remove it.
func (d *decider) pauses() string {
	return "The annotation " + v1alpha1.AnnotationPaused + " pauses the run. " +
		d.removal(v1alpha1.AnnotationPaused)
}

// held describes the annotations that prevent runs from beginning, and how to remove them; "" if
// there are none.
func (d *decider) held() string {
	var all []string
	for _, a := range []struct {
		name, value string
	}{{v1alpha1.AnnotationRebalance, v1alpha1.RebalanceCancel},
		{v1alpha1.AnnotationPaused, "true"}} {
		if d.Cluster.Annotations[a.name] == a.value {
			all = append(all, fmt.Sprintf("%s%s is %q. %s", holdPrefix, a.name, a.value,
				d.removal(a.name)))
		}
	}
	return strings.Join(all, " ")
}

// removal returns the command that removes an annotation.
func (d *decider) removal(annotation string) string {
	return fmt.Sprintf("To remove it, run: kubectl annotate logcluster -n %s %s %s-",
		d.Cluster.Namespace, d.Cluster.Name, annotation)
}

// hold adds a text to the last run's message if an annotation prevents a run that is due. Otherwise
// the last run's message would be the only explanation.
func (d *decider) hold() {
	run := d.run()
	held := d.held()
	if held == "" || run.Phase.Active() || !d.due() {
		return
	}
	run.Message = strings.TrimSpace(run.Message + " " + held)
	if d.Drained.Remaining > 0 {
		d.Drained.Waits = held
	}
}

// due reports whether a run would begin if no annotation prevented it.
func (d *decider) due() bool {
	run := d.run()
	request := d.Cluster.Annotations[v1alpha1.AnnotationRebalance]
	switch {
	case d.policy != v1alpha1.RebalanceManual && d.Cluster.Spec.Brokers > run.Brokers:
		return true
	case d.Drained.Remaining > 0 && d.Drained.Obstacle == "":
		return true
	default:
		return d.policy == v1alpha1.RebalanceContinuous || d.requests(request)
	}
}

// requests reports whether the annotation's value requests a run other than the last one.
func (d *decider) requests(value string) bool {
	return value != "" && value != v1alpha1.RebalanceCancel && value != d.run().Request
}

// withoutHold returns a message without the part that hold has added.
func withoutHold(message string) string {
	message, _, _ = strings.Cut(message, holdPrefix)
	return strings.TrimSpace(message)
}
