//go:build compat

package compat

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"heartwood.dev/heartwood/test/kit/process"
)

// script returns the path of a program in the folder COMPAT_CLIENTS. It skips the test if the
// program is missing.
func script(t *testing.T, name string) string {
	t.Helper()
	folder := os.Getenv("COMPAT_CLIENTS")
	if folder == "" {
		t.Skip("skipped: COMPAT_CLIENTS names no folder of programs")
	}
	path := filepath.Join(folder, name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("skipped: %v", err)
	}
	return path
}

// withoutACLs is the reason why a step of a program must fail.
const withoutACLs = "ACLs are not served"

func TestConfluentSmoke(t *testing.T) {
	proof := newRow(
		t,
		"confluent-kafka (librdkafka)",
		"a program of many steps: metadata, codecs, idempotence, keys, seeks, groups of both protocols, admin",
	)
	python := need(t, "python3", "-c", "import confluent_kafka")
	testSmoke(t, proof, map[string]string{
		"acl": withoutACLs,
	}, python, script(t, "confluent_smoke.py"))
}

func TestKafkaPythonSmoke(t *testing.T) {
	proof := newRow(t, "kafka-python",
		"a program of many steps: codecs, idempotence, groups, offsets, admin")
	python := need(t, "python3", "-c", "import kafka.admin")
	testSmoke(t, proof, nil, python,
		script(t, "kafka_python_smoke.py"))
}

// testSmoke runs a program that prints the client's version and then a line for each step, such as
// "PASS step seconds". The steps in unsupported must fail; the map's values are the reasons.
func testSmoke(t *testing.T, proof *row, unsupported map[string]string, command ...string) {
	t.Parallel()
	s := process.NewSetup(t, 1, clusterManifest)
	bootstrap, _ := process.Start(t, s.Args()...).Ready(t)
	out, err := exec.CommandContext(t.Context(), command[0],
		append(command[1:], bootstrap[0])...).CombinedOutput()
	var failed *exec.ExitError // the program exits with a code other than 0 if a step has failed
	if err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	lines := strings.Split(string(out), "\n")
	if words := strings.Fields(lines[0]); len(words) == 4 {
		proof.version = words[0] + " " + words[1] + ", " + words[2] + " " + words[3]
	} else {
		proof.version = lines[0]
	}
	ran := 0
	for _, line := range lines {
		words := strings.Fields(line)
		if len(words) < 3 {
			continue
		}
		ran++
		switch reason, isRefused := unsupported[words[1]]; {
		case words[0] == "PASS" && isRefused:
			t.Errorf("step %s passed although %s", words[1], reason)
		case words[0] == "FAIL" && isRefused:
			proof.notes = append(proof.notes, words[1]+": "+reason)
		case words[0] == "FAIL":
			proof.notes = append(proof.notes, words[1]+" fails")
			t.Errorf("step failed: %s", line)
		case words[0] != "PASS":
			ran--
		}
	}
	if ran < 5 {
		t.Errorf("%d steps ran:\n%s", ran, out)
	}
	t.Logf("%s", out)
	if rejected := sum(s.Metrics(t)["heartwood_broker_connection_rejected_total"]); rejected != 0 {
		t.Errorf("%d connections were closed because of invalid requests", rejected)
	}
}
