//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// many is the Topic of testdata/many.yaml.
const (
	many           = "many"
	manyPartitions = 1000
)

// thousand has brokers go that lead hundreds of partitions, and tells how long it takes until the
// last one takes a write again.
func (w *world) thousand(t *testing.T) {
	if os.Getenv("HEARTWOOD_E2E_MANY") == "" {
		t.Skip(
			"HEARTWOOD_E2E_MANY is not set: a thousand partitions want a control plane that has a processor or two for itself",
		)
	}
	began := time.Now()
	w.kubectl(t, "apply", "-f", "test/e2e/testdata/many.yaml")
	w.waitTopic(t, many, func(topic *v1alpha1.Topic) string {
		if topic.Status.ReadyPartitions < manyPartitions || topic.Status.UnderReplicated > 0 {
			return fmt.Sprintf("%d partitions are ready, %d under-replicated",
				topic.Status.ReadyPartitions, topic.Status.UnderReplicated)
		}
		return ""
	})
	t.Logf("MEASURED %d partitions are ready after %s", manyPartitions,
		time.Since(began).Round(100*time.Millisecond))
	w.probe(t, leads{}, -1) // the client knows all leaders
	for turn, way := range []struct {
		name string
		do   func(t *testing.T, pod string)
	}{
		{"killed", w.killProcess},
		{"deleted", func(t *testing.T,
			pod string) {
			w.kubectl(t, "delete", "pod", pod, "--wait=false")
		}},
		{"killed again", w.killProcess},
		{"deleted again", func(t *testing.T,
			pod string) {
			w.kubectl(t, "delete", "pod", pod, "--wait=false")
		}},
	} {
		t.Run(way.name, func(t *testing.T) {
			w.waitHome(t)
			before, broker := w.leads(t, many), int32(turn%brokerCount)
			// some 30 partitions have a steady load
			w.mustAsk(t, "POST", "stream", "topic", many, "keys", "30", "perSecond", "300")
			w.waitAcknowledged(t, many, 500)
			w.mustAsk(t, "POST", "mark", "topic", many)
			at := time.Now()
			way.do(t, brokerPod(broker))
			w.probe(t, before, broker)
			w.waitHome(t)
			w.waitAcknowledged(t, many, 500)
			stopped := w.mustAsk(t, "POST", "stop", "topic", many)
			led, others := before.split(stopped.Gaps, broker)
			t.Logf(
				"MEASURED all in sync and led at home after %s; worst gap under load %d ms, of partitions led elsewhere %d ms: %s",
				time.Since(at).Round(100*time.Millisecond),
				led,
				others,
				stopped.longest(),
			)
		})
	}
	w.checkWhole(t, many)
	w.kubectl(t, "delete", "topic", many, "--timeout=120s")
}

// probe sends a record to each partition, and tells when the last took it of those that a broker
// led, and of the others.
func (w *world) probe(t *testing.T, before leads, broker int32) {
	t.Helper()
	taken := w.mustAsk(t, "POST", "probe", "topic", many, "partitions",
		strconv.Itoa(manyPartitions)).Taken
	led, others := before.split(taken, broker)
	t.Logf(
		"MEASURED broker %d led %d of %d: the last of them took a write after %d ms, the last of the others after %d ms",
		broker,
		before.count(broker),
		manyPartitions,
		led,
		others,
	)
}

func (w *world) waitTopic(t *testing.T, name string, missing func(*v1alpha1.Topic) string) {
	t.Helper()
	until(t, "topic "+name+" is as wanted", func(ctx context.Context) string {
		var topic v1alpha1.Topic
		if err := w.Get(ctx, client.ObjectKey{Name: name}, &topic); err != nil {
			return err.Error()
		}
		return missing(&topic)
	})
}

// waitHome waits until every partition is in sync, and led by its first replica.
func (w *world) waitHome(t *testing.T) {
	t.Helper()
	until(t, "all are in sync and led at home", func(ctx context.Context) string {
		var partitions v1alpha1.PartitionList
		if err := w.List(ctx, &partitions); err != nil {
			return err.Error()
		}
		astray := 0
		for i := range partitions.Items {
			p := &partitions.Items[i]
			if p.Spec.Topic == many &&
				(len(p.Status.ISR) < len(p.Spec.Replicas) ||
					p.Status.Leader != p.Spec.Replicas[0]) {
				astray++
			}
		}
		if astray > 0 {
			return fmt.Sprintf("%d partitions are not", astray)
		}
		return ""
	})
}
