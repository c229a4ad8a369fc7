package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/cli/health"
	"heartwood.dev/heartwood/internal/cli/usage"
	"heartwood.dev/heartwood/internal/remote"
)

// broker is one row in the output of command brokers.
type broker struct {
	ID int32 `json:"id"`
	// Ready is the readiness in the status. It is false if the pod is not ready, even if the status
	// differs.
	Ready         bool   `json:"ready"`
	Version       string `json:"version,omitempty"`
	Rack          string `json:"rack,omitempty"`
	Leaders       int32  `json:"leaders"`
	Node          string `json:"node,omitempty"`
	Restarts      *int32 `json:"restarts,omitempty"` // of the container; absent if unknown
	RestartReason string `json:"restartReason,omitempty"`
	// Volume is absent until the broker has measured its volume.
	Volume *v1alpha1.BrokerVolume `json:"volume,omitempty"`
	// Scrub is absent until the broker has reported its scrub.
	Scrub *v1alpha1.BrokerScrub `json:"scrub,omitempty"`
}

// brokersOf returns the brokers in the status, combined with the state of their pods. pods is nil
// if the pods could not be read.
func brokersOf(cluster *v1alpha1.LogCluster, pods []corev1.Pod) []broker {
	brokers := []broker{}
	for _, b := range cluster.Status.Brokers {
		row := broker{ID: b.ID, Version: b.Version, Rack: b.Rack, Leaders: b.Leaders,
			RestartReason: b.RestartReason, Volume: b.Volume, Scrub: b.Scrub}
		pod := health.PodOf(pods, cluster.Name, b.ID)
		row.Ready = b.Ready && (pods == nil || health.PodReady(pod))
		if pod != nil {
			row.Node, row.Restarts = pod.Spec.NodeName, new(int32(0))
			for _, container := range pod.Status.ContainerStatuses {
				*row.Restarts += container.RestartCount
			}
		}
		brokers = append(brokers, row)
	}
	return brokers
}

func printBrokers(out io.Writer, brokers []broker) error {
	rows := newTable("BROKER READY VERSION RACK LEADERS DISK PRESSURE SCRUBBED DAMAGED NODE " +
		"RESTARTS RESTART-REASON")
	now := time.Now()
	for _, b := range brokers {
		scrubbed, damaged := scrubColumns(b.Scrub, now)
		restarts, disk, pressure := "", "", ""
		if v := b.Volume; v != nil {
			disk = fmt.Sprintf("%d%% of %s", v.UsedPercent, remote.Bytes(v.TotalBytes))
			pressure = v.Pressure
		}
		if b.Restarts != nil {
			restarts = strconv.Itoa(int(*b.Restarts))
		}
		rows.add(strconv.Itoa(int(b.ID)), strconv.FormatBool(b.Ready), b.Version, b.Rack,
			strconv.Itoa(int(b.Leaders)), disk, pressure, scrubbed, damaged, b.Node, restarts,
			b.RestartReason)
	}
	return rows.print(out, "")
}

func brokersCommand(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "brokers",
		Short: "Show the brokers: version, zone, leaders, disk, node, restarts",
		Long: `Show the brokers of a LogCluster, one per line.

DISK is the used share of the volume. PRESSURE is its storage pressure: None, Warn, Clean, Reject or
Reserve; from Reject on the broker refuses produce requests, and a finding says so. SCRUBBED is how
long ago the last complete check of everything at rest began, and DAMAGED the number of segments
with damage ('kubectl heartwood scrub'). RESTARTS is the number of restarts of the container.
RESTART-REASON says why the operator is going to restart the broker. READY is also false if the pod
is missing, being deleted or not ready, although the status says that the broker is ready: the
operator may not run. The exit code is 3 if a broker is not ready, or if a volume is almost full.`,
		Args: usage.NoArgs,
	}
	cmd.RunE = f.run(func(ctx context.Context, s *session, _ []string) error {
		cluster, err := s.logCluster(ctx)
		if err != nil {
			return err
		}
		pods, err := s.podsOf(ctx, cluster.Name)
		if err != nil {
			return err
		}
		brokers := brokersOf(cluster, pods)
		findings := append(health.Storage(cluster),
			health.Pods(health.Input{Cluster: cluster, Pods: pods, Now: time.Now()})...)
		if s.json() {
			err = printJSON(s.out, map[string]any{"brokers": brokers,
				"findings": append([]health.Finding{}, findings...)})
		} else if err = printBrokers(s.out, brokers); err == nil {
			printFindings(s.out, findings)
		}
		s.printUnread()
		if err == nil && (int(cluster.Spec.Brokers) > len(brokers) || health.Degraded(findings) ||
			slices.ContainsFunc(brokers, func(b broker) bool { return !b.Ready })) {
			return ErrDegraded
		}
		return err
	})
	return cmd
}
