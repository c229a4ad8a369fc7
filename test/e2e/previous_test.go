//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/hack/releases"
)

// previousStep needs a release. Until there is one, it is skipped in every run.
const previousStep = "brokers of the last release run this version and the last release again"

// lastRelease returns the pin of the last release, or nil if there is no release yet.
func lastRelease() (*releases.Pin, error) {
	pins, err := releases.Read("../../hack/releases")
	return releases.Last(pins, ""), err
}

// previousRelease updates a LogCluster of the last release to this version, back, and to this
// version again, while a client writes. The format level must not rise meanwhile, because the last
// release must be able to read everything.
func (e *environment) previousRelease(t *testing.T) {
	pin, err := lastRelease()
	if err != nil {
		t.Fatal(err)
	}
	if pin == nil {
		t.Skip("hack/releases has no release yet. The step with LATER_IMAGE runs two versions in turn")
	}
	previous := os.Getenv("PREVIOUS_IMAGE")
	if previous == "" {
		t.Skipf("PREVIOUS_IMAGE is not set: see test/e2e/doc.go; the last release is %s", pin.Version)
	}
	content, err := os.ReadFile(filepath.Join("testdata", "released.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	manifest := strings.ReplaceAll(string(content), "PREVIOUS_IMAGE", previous)
	if _, err := command(t.Context(), manifest, "kubectl", "-n", e.namespace, "apply", "-f",
		"-"); err != nil {
		t.Fatal(err)
	}
	e.atEnd(t, "wait", "--for=delete", "pods,pvc", "-l", v1alpha1.LabelCluster+"=released",
		"--timeout=120s")
	e.atEnd(t, "delete", "pod", "client-released", "--ignore-not-found", "--grace-period=1")
	e.atEnd(t, "delete", "-f", "test/e2e/testdata/released.yaml", "--timeout=120s")
	e.of("released").runReleased(t, pin, previous)
}

// runReleased is the part of previousRelease that runs on the LogCluster released.
func (e *environment) runReleased(t *testing.T, pin *releases.Pin, previous string) {
	e.kubectl(t, "wait", "logcluster/"+e.cluster, "topic/released", "topic/released-compacted",
		"--for=condition=Ready", "--timeout", deadline.String())
	if printed := e.kubectl(t, "exec", v1alpha1.BrokerLeaseName(e.cluster, 0), "--", "/heartwood",
		"--version"); !strings.Contains(printed, pin.Version) {
		t.Fatalf("PREVIOUS_IMAGE contains %q, want %s", printed, pin.Version)
	}
	e.runClient(t, e.cluster)
	level := e.kubectl(t, "get", "logcluster", e.cluster, "-o", "jsonpath={.status.formatLevel}")
	for _, image := range []string{e.image, previous, e.image} {
		e.stream(t, "released", "keys", "500", "perSecond", "500")
		e.waitAcknowledged(t, "released", 1000)
		e.patchImage(t, image)
		e.waitRolling(t)
		e.mustCall(t, "POST", "produce", "topic", "released-compacted", "keys", "500", "rounds", "5",
			"deleteEvery", "5")
		e.waitRollout(t, v1alpha1.ReasonComplete, "")
		e.waitAcknowledged(t, "released", 1000)
		stopped := e.mustCall(t, "POST", "stop", "topic", "released")
		e.measured(t, "to %s: a partition was unavailable for writes for %d ms at most", image,
			stopped.Gap)
		e.checkAllRecords(t, "released")
		e.kubectl(t, "exec", v1alpha1.BrokerLeaseName(e.cluster, 0), "--", "/heartwood", "clean",
			"released-compacted", "--wait")
		e.checkCompacted(t, "released-compacted")
		if now := e.kubectl(t, "get", "logcluster", e.cluster, "-o",
			"jsonpath={.status.formatLevel}"); now != level {
			t.Errorf("format level %s, want %s", now, level)
		}
	}
}

// TestDeletedManifestKeepsTheCRDs checks which objects of install.yaml the step deletes.
func TestDeletedManifestKeepsTheCRDs(t *testing.T) {
	manifest := "kind: Namespace\n---\nkind: CustomResourceDefinition\nmetadata:\n  annotations:\n" +
		"    helm.sh/resource-policy: keep\n---\nkind: Deployment\n"
	if got := withoutKept(manifest); got != "kind: Namespace\n---\nkind: Deployment\n" {
		t.Errorf("got %q", got)
	}
}
