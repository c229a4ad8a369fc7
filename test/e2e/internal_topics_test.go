//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// offsetsTopic is the name of the Topic of __consumer_offsets, which a broker has created.
const offsetsTopic = "consumer-offsets-189fe61b"

// internalTopics tries to make __consumer_offsets lose its records, in each way in which a Topic
// can be changed. Each attempt must be rejected, and a group must continue from its committed
// offsets after the brokers have been restarted.
func (e *environment) internalTopics(t *testing.T) {
	const group = "e2e-internal"
	e.join(t, group, "")
	e.mustCall(t, "POST", "produce", "topic", failover, "keys", "100", "rounds", "1")
	e.waitConsumed(t)
	e.mustCall(t, "POST", "leave", "topic", failover)

	e.loseByKubectl(t)
	e.loseByKafka(t)
	policy := e.kubectl(t, "get", "topic", offsetsTopic, "-o",
		"jsonpath={.spec.cleanupPolicy}{.spec.retention}")
	if policy != "Compact" {
		t.Errorf("cleanupPolicy and retention are %q, want Compact and none", policy)
	}

	for id := range int32(brokerCount) {
		e.kubectl(t, "delete", "pod", brokerPod(id), "--timeout=120s")
		e.waitReady(t, 1, topics)
		e.waitInSync(t)
	}
	e.join(t, group, "")
	e.mustCall(t, "POST", "produce", "topic", failover, "keys", "100", "rounds", "3")
	until(t, "member received the new records", func(ctx context.Context) string {
		answer, err := e.call(ctx, "GET", "group", url.Values{"topic": {failover}})
		if err != nil || answer.Consumed < 300 {
			return fmt.Sprintf("%d records, %v", answer.Consumed, err)
		}
		return ""
	})
	if again := e.mustCall(t, "POST", "leave", "topic", failover); again.Consumed != 300 {
		t.Errorf("%d records consumed; 300 were written since the offsets were committed",
			again.Consumed)
	}
}

// loseByKubectl applies manifests and patches to the Topic.
func (e *environment) loseByKubectl(t *testing.T) {
	t.Helper()
	manifest := "apiVersion: heartwood.dev/v1alpha1\nkind: Topic\nmetadata: {name: " + offsetsTopic +
		"}\nspec:\n  cluster: " + logCluster + "\n  topicName: __consumer_offsets\n"
	for _, args := range [][]string{
		{"patch", "--type=merge", "-p", `{"spec":{"cleanupPolicy":null}}`},
		{"patch", "--type=merge", "-p", `{"spec":{"cleanupPolicy":"Delete"}}`},
		{"patch", "--type=merge", "-p", `{"spec":{"retention":{"time":"1s"}}}`},
		{"patch", "--type=json", "-p", `[{"op":"remove","path":"/spec/cleanupPolicy"}]`},
	} {
		args = append([]string{"--namespace", e.namespace, args[0], "topic", offsetsTopic},
			args[1:]...)
		if out, err := command(t.Context(), "", "kubectl", args...); err == nil ||
			!strings.Contains(out, "this topic") {
			t.Errorf("%v: got error %v\n%s", args, err, out)
		}
	}
	for _, added := range []string{"  cleanupPolicy: Delete\n", "  retention: {size: 1}\n"} {
		for _, how := range [][]string{{"apply"},
			{"apply", "--server-side", "--force-conflicts"}} {
			args := append(append([]string{"--namespace", e.namespace}, how...), "-f", "-")
			if out, err := command(t.Context(), manifest+added, "kubectl", args...); err == nil ||
				!strings.Contains(out, "this topic") {
				t.Errorf("%v with %s: got error %v\n%s", how, added, err, out)
			}
		}
	}
	// A manifest without a policy does not change the policy.
	if out, err := command(t.Context(), manifest, "kubectl", "--namespace", e.namespace, "apply",
		"-f", "-"); err != nil {
		t.Errorf("apply without a policy: %v\n%s", err, out)
	}
}

// loseByKafka sends Kafka requests that change the settings.
func (e *environment) loseByKafka(t *testing.T) {
	t.Helper()
	for _, change := range [][3]string{
		{"cleanup.policy", "delete", "0"}, {"cleanup.policy", "", "1"},
		{"cleanup.policy", "delete", "2"}, {"cleanup.policy", "compact", "3"},
		{"retention.ms", "1000", "0"}, {"retention.bytes", "1", "0"},
		{"segment.ms", "1000", "replace"}, {"cleanup.policy", "delete", "replace"},
	} {
		_, err := e.call(t.Context(), "POST", "configs", url.Values{
			"topic": {"__consumer_offsets"}, "key": {change[0]}, "value": {change[1]},
			"op": {change[2]}})
		if err == nil || !strings.Contains(err.Error(), "INVALID_CONFIG") {
			t.Errorf("%v: got error %v, want INVALID_CONFIG", change, err)
		}
	}
}
