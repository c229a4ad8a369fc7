//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// release is the name of the Helm release that most steps use.
const release = "heartwood"

// handOver matches the commands that the chart prints if the CRDs belong to another release.
var handOver = regexp.MustCompile(`(?m)^  ((?:KEPT=|kubectl ).*)$`)

// installRelease installs the chart. If there are CRDs from another release, the install must fail
// and print the commands that hand them over. installRelease then runs these commands and installs
// again. It reports whether this was necessary.
func (e *environment) installRelease(t *testing.T, name string,
	values ...string) (handedOver bool) {
	t.Helper()
	args := append([]string{"install", name, "charts/heartwood", "--namespace", e.namespace,
		"--wait", "--timeout", deadline.String()}, values...)
	out, err := helm(t.Context(), args...)
	if err == nil {
		t.Logf("helm install:\n%s", out)
		return false
	}
	var script strings.Builder
	for _, found := range handOver.FindAllStringSubmatch(out, -1) {
		script.WriteString(found[1] + "\n")
	}
	if script.Len() == 0 {
		t.Fatal(err)
	}
	t.Logf("helm install of release %s asks for:\n%s", name, script.String())
	if _, err := command(t.Context(), script.String(), "bash", "-e"); err != nil {
		t.Fatal(err)
	}
	if out, err = helm(t.Context(), args...); err != nil {
		t.Fatal(err)
	}
	t.Logf("helm install:\n%s", out)
	return true
}

func (e *environment) uninstallRelease(t *testing.T, name string) {
	t.Helper()
	if _, err := helm(t.Context(), "uninstall", name, "--namespace", e.namespace,
		"--wait"); err != nil {
		t.Fatal(err)
	}
}

// failedInstall installs the chart for the first time, with an image that does not exist. Then it
// uninstalls the chart as docs/operate/install.md describes.
func (e *environment) failedInstall(t *testing.T) {
	repository, tag := splitImage(absentImage)
	out, err := helm(t.Context(), "install", "failed", "charts/heartwood", "--namespace",
		e.namespace, "--set", "image.repository="+repository, "--set", "image.tag="+tag, "--wait",
		"--timeout", "15s")
	if err == nil {
		t.Fatalf("an image that does not exist was installed:\n%s", out)
	}
	t.Log("helm install: ", err)
	e.uninstallRelease(t, "failed")
}

// otherRelease uninstalls the chart, installs it under another release name, and then returns to
// the first name. The brokers continue to run, and every release must have a working operator.
func (e *environment) otherRelease(t *testing.T) {
	values := filepath.Join(t.TempDir(), "values.yaml")
	before, err := helm(t.Context(), "get", "values", release, "--namespace", e.namespace, "-o",
		"yaml")
	if err == nil {
		err = os.WriteFile(values, []byte(before), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	pods := e.podUIDs(t)
	for index, next := range [][2]string{{release, "logs"}, {"logs", release}} {
		e.uninstallRelease(t, next[0])
		until(t, "no operators", func(ctx context.Context) string {
			left, err := e.pods(ctx, operators)
			if err != nil || len(left) > 0 {
				return fmt.Sprintf("%d operators, %v", len(left), err)
			}
			return ""
		})
		if !e.installRelease(t, next[1], "--values", values) {
			t.Errorf("install %d: the CRDs of release %s did not have to be handed over", index,
				next[0])
		}
		e.kubectl(t, "apply", "-f", "test/e2e/testdata/alone.yaml")
		e.waitReady(t, 1, topics+1)
		e.kubectl(t, "delete", "-f", "test/e2e/testdata/alone.yaml", "--timeout=120s")
	}
	if now := e.podUIDs(t); !slices.Equal(pods, now) {
		t.Errorf("broker pods were replaced: %v, before %v", now, pods)
	}
}
