//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// many is the Topic in testdata/many.yaml.
const many = "many"

// manyPartitions returns the number of partitions of topic many.
func manyPartitions() int {
	if n, err := strconv.Atoi(os.Getenv("HEARTWOOD_E2E_MANY")); err == nil && n > 1 {
		return n
	}
	return 1000
}

// manyPartitionsFailOver stops brokers that lead hundreds of partitions. It measures the time until
// the last partition accepts a write again.
func (e *environment) manyPartitionsFailOver(t *testing.T) {
	if os.Getenv("HEARTWOOD_E2E_MANY") == "" {
		t.Skip(
			"HEARTWOOD_E2E_MANY is not set: a thousand partitions require a control plane with one or two CPUs of its own",
		)
	}
	began := time.Now()
	manifest, err := os.ReadFile(filepath.Join("testdata", "many.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := command(t.Context(), strings.Replace(string(manifest), "partitions: 1000",
		fmt.Sprintf("partitions: %d", manyPartitions()), 1), "kubectl", "--namespace", e.namespace,
		"apply", "-f", "-"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	e.waitTopic(t, many, func(topic *v1alpha1.Topic) string {
		if int(topic.Status.ReadyPartitions) < manyPartitions() ||
			topic.Status.UnderReplicatedPartitions > 0 {
			return fmt.Sprintf("%d partitions ready, %d under-replicated",
				topic.Status.ReadyPartitions, topic.Status.UnderReplicatedPartitions)
		}
		return ""
	})
	e.measured(t, "%d partitions ready after %s", manyPartitions(),
		time.Since(began).Round(100*time.Millisecond))
	e.probe(t, leads{}, -1) // fills the client's metadata cache with all leaders
	kill := func(t *testing.T, broker int32) { e.killProcess(t, brokerPod(broker)) }
	remove := func(t *testing.T, broker int32) {
		e.kubectl(t, "delete", "pod", brokerPod(broker), "--wait=false")
	}
	for round, failure := range []struct {
		name string
		do   func(t *testing.T, broker int32)
	}{
		{"killed", kill},
		{"deleted", remove},
		{"killed again", kill},
		{"deleted again", remove},
		// The second failure happens while the first broker is returning to its ISRs.
		{"deleted, and another one killed 14 s later", func(t *testing.T, broker int32) {
			remove(t, broker)
			time.Sleep(14 * time.Second)
			kill(t, (broker+1)%brokerCount)
		}},
	} {
		t.Run(failure.name, func(t *testing.T) {
			e.waitPreferredLeaders(t)
			before, broker := e.leads(t, many), int32(round%brokerCount)
			// Send a steady load to about 30 partitions.
			e.stream(t, many, "keys", "30", "perSecond", "300")
			e.waitAcknowledged(t, many, 500)
			e.mustCall(t, "POST", "mark", "topic", many)
			moment := time.Now()
			failure.do(t, broker)
			e.probe(t, before, broker)
			e.waitPreferredLeaders(t)
			e.waitAcknowledged(t, many, 500)
			stopped := e.mustCall(t, "POST", "stop", "topic", many)
			led, others := before.split(stopped.Gaps, broker)
			e.measured(t,
				"all in sync with preferred leaders after %s; longest gap under load "+
					"%d ms, of partitions of other leaders %d ms: %s",
				time.Since(moment).Round(100*time.Millisecond),
				led,
				others,
				stopped.longest(),
			)
		})
	}
	e.checkAllRecords(t, many)
	e.kubectl(t, "delete", "topic", many, "--timeout=120s")
}

// probe sends a record to each partition. It logs the longest time until an acknowledgement,
// separately for the partitions that the given broker led before its failure and for all other
// partitions.
func (e *environment) probe(t *testing.T, before leads, broker int32) {
	t.Helper()
	latencies := e.mustCall(t, "POST", "probe", "topic", many, "partitions",
		strconv.Itoa(manyPartitions())).Latencies
	led, others := before.split(latencies, broker)
	e.measured(t,
		"broker %d led %d of %d: the last of them accepted a write after %d ms, the "+
			"last of the others after %d ms",
		broker,
		before.count(broker),
		manyPartitions(),
		led,
		others,
	)
}

// waitTopic waits until the function missing returns "" for a topic.
func (e *environment) waitTopic(t *testing.T, name string, missing func(*v1alpha1.Topic) string) {
	t.Helper()
	until(t, "topic "+name+" ready", func(ctx context.Context) string {
		var topic v1alpha1.Topic
		if err := e.Get(ctx, client.ObjectKey{Name: name}, &topic); err != nil {
			return err.Error()
		}
		return missing(&topic)
	})
}

// waitPreferredLeaders waits until every partition is in sync and led by its preferred leader.
func (e *environment) waitPreferredLeaders(t *testing.T) {
	t.Helper()
	until(t, "all partitions in sync with preferred leaders", func(ctx context.Context) string {
		partitions, err := e.partitions(ctx, many)
		if err != nil {
			return err.Error()
		}
		pending := manyPartitions() - len(partitions)
		for _, p := range partitions {
			if len(p.ISR) < len(p.Target) || p.Leader != p.Target[0] {
				pending++
			}
		}
		if pending > 0 {
			return fmt.Sprintf("%d partitions pending", pending)
		}
		return ""
	})
}
