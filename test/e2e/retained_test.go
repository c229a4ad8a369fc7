//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

const kept = "kept" // the Topic in testdata/kept.yaml

// retainedLogs is the part of the output of kubectl heartwood retained that this step reads.
type retainedLogs struct {
	Topics []retainedTopic
	Others struct{ Logs int } // logs on the brokers' disks that belong to no entry of Topics
}

type retainedTopic struct {
	Topic                 string
	Partitions, Brokers   []int32
	SizeBytes, RecordsMax int64
}

// retained deletes a Topic with reclaimPolicy Retain. The Topic's partitions must be shown as
// retained, not as a fault, until a user consents to the removal of the records.
func (e *environment) retained(t *testing.T) {
	e.kubectl(t, "apply", "-f", "test/e2e/testdata/kept.yaml")
	e.waitReady(t, 1, topics+1)
	t.Log(e.kubectl(t, "exec", brokerPod(0), "--", "heartwood", "bench", "produce", "--topic", kept,
		"--create=false", "--records", "3000"))
	p := e.linkPlugin(t, os.Getenv("KUBECONFIG"))
	_, before := e.retainedLogs(t, p)
	e.kubectl(t, "delete", "topic", kept, "--timeout=120s")
	e.waitRetained(t, 3)
	e.waitReady(t, 1, topics)
	if out, code := p.run(t, "", "status", "-n", e.namespace); code != 0 {
		t.Errorf("retained records are shown as a fault: exit code %d\n%s", code, out)
	}
	for args, want := range map[string]int{"partitions": 0, "partitions --retained": 3} {
		out := e.kubectl(t, append([]string{"exec", brokerPod(0), "--", "heartwood"},
			strings.Fields(args)...)...)
		if got := strings.Count(out, "\n"+kept+" "); got != want {
			t.Errorf("heartwood %s shows %d partitions of the topic, want %d:\n%s", args, got, want,
				out)
		}
	}
	t.Log(p.ok(t, "", "retained", "-n", e.namespace))
	logs, _ := e.retainedLogs(t, p)
	if len(logs) != 1 {
		t.Fatalf("the brokers retain %+v, want one log", logs)
	}
	if l := logs[0]; len(l.Partitions) != 3 || len(l.Brokers) != brokerCount {
		t.Errorf("the brokers retain %+v, want three partitions on %d brokers", l, brokerCount)
	}
	if l := logs[0]; l.RecordsMax < 3000 || l.SizeBytes == 0 {
		t.Errorf("the brokers retain %d records, %d bytes, want at least 3000 records", l.RecordsMax,
			l.SizeBytes)
	}

	t.Log(p.ok(t, "", "retained", "remove", kept, "--name", kept, "--wait", "-n", e.namespace))
	if logs, after := e.retainedLogs(t, p); len(logs) > 0 || after != before {
		t.Errorf("after the removal the brokers retain %+v and %d other logs, before %d", logs, after,
			before)
	}
	e.waitRetained(t, 0)
}

// waitRetained waits until the status shows the given number of retained partitions of topic kept.
func (e *environment) waitRetained(t *testing.T, partitions int32) {
	t.Helper()
	until(t, fmt.Sprintf("%d retained partitions", partitions), func(ctx context.Context) string {
		topic, err := e.retainedInStatus(ctx)
		switch {
		case err != nil:
			return err.Error()
		case topic == nil && partitions > 0, topic != nil && topic.Partitions != partitions:
			return fmt.Sprintf("%+v", topic)
		}
		return ""
	})
}

// retainedLogs returns the retained logs that the brokers report: the logs of topic kept, and the
// logs of no deleted topic.
func (e *environment) retainedLogs(t *testing.T, p *plugin) (retainedTopics []retainedTopic,
	others int) {
	t.Helper()
	var logs retainedLogs
	out := p.ok(t, "", "retained", "-n", e.namespace, "-o", "json")
	if err := json.Unmarshal([]byte(out), &logs); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return slices.DeleteFunc(logs.Topics,
		func(topic retainedTopic) bool { return topic.Topic != kept }), logs.Others.Logs
}

// retainedInStatus returns the entry of topic kept in the LogCluster's status, or nil.
func (e *environment) retainedInStatus(ctx context.Context) (*v1alpha1.RetainedTopic, error) {
	var cluster v1alpha1.LogCluster
	if err := e.Get(ctx, client.ObjectKey{Name: logCluster}, &cluster); err != nil {
		return nil, err
	}
	for i := range cluster.Status.RetainedTopics {
		if topic := &cluster.Status.RetainedTopics[i]; topic.Topic == kept {
			return topic, nil
		}
	}
	return nil, nil
}
