//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// sealed is the Topic in testdata/sealed.yaml, which has sealed segments.
const sealed = "sealed"

// laterImage returns the image of a later version. It skips the test if there is none.
func laterImage(t *testing.T) string {
	t.Helper()
	later := os.Getenv("LATER_IMAGE")
	if later == "" {
		t.Skip("LATER_IMAGE is not set: see test/e2e/doc.go")
	}
	return later
}

// laterVersion updates the brokers to a later version, which supports a higher format level, and
// back to the first version. While both versions run, the cleaner compacts a topic and a consumer
// group commits. The batches of a topic that is not compacted must not change.
func (e *environment) laterVersion(t *testing.T) {
	later := laterImage(t)
	batches := e.writeSealed(t)
	e.join(t, "e2e-versions", "")
	defer func() {
		if t.Failed() { // the next steps need the first version
			e.patchImage(t, e.image)
		}
	}()
	for _, image := range []string{later, e.image} {
		e.underLoad(t, func(t *testing.T) {
			watch := e.watchBrokers(t)
			e.patchImage(t, image)
			e.waitRolling(t)
			e.waitConsumes(t)
			e.mustCall(t, "POST", "produce", "topic", "ledger", "keys", "500", "rounds", "5",
				"deleteEvery", "5")
			e.waitRollout(t, v1alpha1.ReasonComplete, "")
			watch.check(t, brokerCount)
			watch.checkNamed(t)
			e.checkLevel(t, image == later)
		})
		e.kubectl(t, "exec", brokerPod(0), "--", "/heartwood", "clean", "ledger", "--wait")
		e.checkCompacted(t, "ledger")
		for id := range int32(brokerCount) {
			if now := e.batches(t, id); !slices.Equal(now, batches[id]) {
				t.Errorf("broker %d with image %s has other batches:\n%v, before:\n%v", id, image, now,
					batches[id])
			}
		}
	}
	e.checkAllRecords(t, sealed)
	e.waitConsumed(t)
	left := e.mustCall(t, "POST", "leave", "topic", failover)
	e.measured(t, "%d records consumed, %d of them more than once", left.Consumed,
		left.Duplicates)
}

// batch is the part of an output line of heartwood log dump that no version may change.
type batch struct {
	File                                    string
	Position, Bytes, BaseOffset, LastOffset int64
	CRC                                     uint32
}

// writeSealed creates topic sealed, fills several segments of each partition, and returns the
// batches on each broker.
func (e *environment) writeSealed(t *testing.T) map[int32][]batch {
	t.Helper()
	e.kubectl(t, "apply", "-f", "test/e2e/testdata/sealed.yaml")
	e.atEnd(t, "delete", "-f", "test/e2e/testdata/sealed.yaml", "--timeout=120s")
	e.waitReady(t, 1, topics+1)
	e.mustCall(t, "POST", "produce", "topic", sealed, "keys", "1000", "rounds", "20")
	all := map[int32][]batch{}
	for id := range int32(brokerCount) {
		files := map[string]bool{}
		all[id] = e.batches(t, id)
		for _, b := range all[id] {
			files[b.File] = true
		}
		if t.Logf("broker %d: %d batches in %d segments", id, len(all[id]), len(files)); len(files) < 6 {
			t.Fatal("the partitions have no sealed segments")
		}
	}
	return all
}

// batches verifies a broker's logs of topic sealed, and returns their batches.
func (e *environment) batches(t *testing.T, broker int32) (all []batch) {
	t.Helper()
	logs := []string{"/data/sealed-0", "/data/sealed-1", "/data/sealed-2"}
	heartwood := []string{"exec", brokerPod(broker), "--", "/heartwood", "log"}
	e.kubectl(t, slices.Concat(heartwood, []string{"verify"}, logs)...)
	lines := e.kubectl(t, slices.Concat(heartwood, []string{"dump", "--json"}, logs)...)
	for line := range strings.Lines(lines) {
		var b batch
		if err := json.Unmarshal([]byte(line), &b); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, b)
	}
	return all
}

// checkLevel checks that the format level is still the first one. If rises is true, the level must
// be scheduled to rise, because all brokers support a higher one.
func (e *environment) checkLevel(t *testing.T, rises bool) {
	t.Helper()
	until(t, fmt.Sprintf("format level 1, to be raised: %t", rises),
		func(ctx context.Context) string {
			var cluster v1alpha1.LogCluster
			if err := e.Get(ctx, client.ObjectKey{Name: e.cluster}, &cluster); err != nil {
				return err.Error()
			}
			s := cluster.Status
			if s.FormatLevel != 1 || (s.FormatLevelRaiseTime != nil) != rises ||
				meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionVersionSkew) {
				return fmt.Sprintf("format level %d, to be raised at %v, %+v", s.FormatLevel,
					s.FormatLevelRaiseTime, s.Conditions)
			}
			return ""
		})
}

// tooOld updates a LogCluster with disks of format level 2 to a version that supports only level 1.
// The first broker with this version must not start. The other broker must not be restarted and
// must serve. Updating to the later version again must end the failure.
func (e *environment) tooOld(t *testing.T) {
	later := laterImage(t)
	content, err := os.ReadFile(filepath.Join("testdata", "leveled.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	manifest := strings.ReplaceAll(string(content), "LATER_IMAGE", later)
	if _, err := command(t.Context(), manifest, "kubectl", "-n", e.namespace, "apply", "-f",
		"-"); err != nil {
		t.Fatal(err)
	}
	e.atEnd(t, "wait", "--for=delete", "pods,pvc", "-l", v1alpha1.LabelCluster+"=leveled",
		"--timeout=120s")
	e.atEnd(t, "delete", "pod", "client-leveled", "--ignore-not-found", "--grace-period=1")
	e.atEnd(t, "delete", "-f", "test/e2e/testdata/leveled.yaml", "--timeout=120s")
	e.of("leveled").runTooOld(t, later)
}

// runTooOld is the part of tooOld that runs on the LogCluster leveled.
func (e *environment) runTooOld(t *testing.T, later string) {
	e.kubectl(t, "wait", "logcluster", e.cluster, "--for=condition=Ready", "--timeout=180s")
	e.kubectl(t, "wait", "topic", "levels", "--for=condition=Ready", "--timeout=60s")
	e.kubectl(t, "wait", "logcluster", e.cluster, "--for=jsonpath={.status.formatLevel}=2",
		"--timeout=60s")
	e.runClient(t, e.cluster)
	e.stream(t, "levels", "keys", "500", "perSecond", "500")
	e.waitAcknowledged(t, "levels", 500)
	e.patchImage(t, e.image)
	e.waitRollout(t, v1alpha1.ReasonWaiting, "is not ready")
	broken := e.waitTooOld(t)
	e.waitAcknowledged(t, "levels", 1000)
	e.patchImage(t, later)
	e.waitRollout(t, v1alpha1.ReasonComplete, "")
	e.waitPod(t, v1alpha1.BrokerLeaseName(e.cluster, broken), nil)
	e.waitAcknowledged(t, "levels", 500)
	stopped := e.mustCall(t, "POST", "stop", "topic", "levels")
	e.measured(t, "a partition was unavailable for writes for %d ms at most", stopped.Gap)
	e.checkAllRecords(t, "levels")
}

// waitTooOld waits until a broker has logged that its version is too old for its disk, and returns
// this broker. The other broker must still run the later version.
func (e *environment) waitTooOld(t *testing.T) (broken int32) {
	t.Helper()
	until(t, "version refused", func(ctx context.Context) string {
		found := ""
		for id := range int32(2) {
			out, err := command(ctx, "", "kubectl", "-n", e.namespace, "logs",
				v1alpha1.BrokerLeaseName(e.cluster, id), "--tail=20")
			if err == nil && strings.Contains(out, "format level 2: this version of Heartwood is too "+
				"old: it supports levels up to 1") {
				broken, found = id, "found"
			}
		}
		if found == "" {
			return "no broker has logged it"
		}
		return ""
	})
	other := e.kubectl(t, "get", "pod", v1alpha1.BrokerLeaseName(e.cluster, 1-broken), "-o",
		"jsonpath={.spec.containers[0].image}")
	if other == e.image {
		t.Errorf("broker %d has the version that is too old, too", 1-broken)
	}
	return broken
}
