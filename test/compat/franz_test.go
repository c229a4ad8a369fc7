//go:build compat

package compat

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"heartwood.dev/heartwood/test/kit/process"
)

// franzTests selects franz-go's own tests that need a broker. TestSCRAM is missing, because
// TestFranzGoSecurity runs it. TestShareGroup is missing, because it needs an unsupported feature.
const franzTests = "TestProcessHooks|TestPing|TestIssue|TestConsumeTopic|TestConsumeRegex|TestDirectPartitionPurge|TestAddRemovePartitions|TestPause|" +
	"TestPooling|TestGroup|TestTxnEtl|TestHookPollStart$|TestPollWait|TestClient_"

// franzResult matches a result line of `go test -v`.
var franzResult = regexp.MustCompile(`(?m)^( *)--- (PASS|FAIL|SKIP): (\S+)`)

// TestFranzGo runs franz-go's own tests, in the version on which this repository depends. They
// include consumer groups that rebalance under load with each of franz-go's balancers, and
// regression tests of the client.
func TestFranzGo(t *testing.T) {
	proof := newRow(
		t,
		"franz-go's own tests",
		"groups under load with each balancer, regular expressions, pauses, large messages, many bugs of old",
	)
	suite := script(t, "franz_go_suite.sh")
	clone, version := franzClone(t)
	proof.version = version
	t.Parallel()
	s := process.NewSetup(t, 1, clusterManifest)
	bootstrap, _ := process.Start(t, s.Args()...).Ready(t)
	cmd := exec.CommandContext(t.Context(), "bash", suite, bootstrap[0], clone, franzTests)
	cmd.Env = append(os.Environ(), "RF=1", "RECORDS=50000", "TMO=25m")
	out, err := cmd.CombinedOutput()
	counts := map[string]int{}
	for _, found := range franzResult.FindAllStringSubmatch(string(out), -1) {
		if counts[found[2]]++; found[2] == "FAIL" {
			proof.notes = append(proof.notes, found[3]+" fails")
		}
	}
	proof.notes = append(proof.notes,
		fmt.Sprintf("%d pass, with their parts; %d skip themselves", counts["PASS"],
			counts["SKIP"]),
		"not run here: TestSCRAM (needs authentication), TestShareGroup (no share groups)")
	if err != nil || counts["PASS"] == 0 {
		t.Errorf("%v\n%s", err, out)
	}
	for _, line := range strings.Split(string(out), "\n") {
		if strings.Contains(line, "--- ") {
			t.Log(line)
		}
	}
}

// franzClone copies the module's source, with its tests, to a writable folder.
func franzClone(t *testing.T) (folder, version string) {
	t.Helper()
	found := need(t, "go", "version")
	var module struct{ Dir, Version string }
	if err := json.Unmarshal([]byte(output(t, "", found, "list", "-m", "-json",
		"github.com/twmb/franz-go")), &module); err != nil {
		t.Fatal(err)
	}
	folder = t.TempDir()
	if err := os.CopyFS(folder, os.DirFS(module.Dir)); err != nil {
		t.Fatal(err)
	}
	return folder, module.Version
}
