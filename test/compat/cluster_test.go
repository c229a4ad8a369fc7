//go:build compat

package compat

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"heartwood.dev/heartwood/test/kit/process"
)

const topic = "tickets"

const clusterManifest = `apiVersion: heartwood.dev/v1alpha1
kind: LogCluster
metadata: {name: compat}
spec: {brokers: 1}
`

// topicManifest describes a topic without a retention time, because the programs send records with
// old timestamps.
const topicManifest = `apiVersion: heartwood.dev/v1alpha1
kind: Topic
metadata: {name: ` + topic + `}
spec:
  cluster: compat
  cleanupPolicy: Delete
  retention: {time: -1s}
`

// startCluster starts one broker with the topic and returns its bootstrap address.
func startCluster(t *testing.T, topics string) (process.Setup, string) {
	t.Helper()
	s := process.NewSetup(t, 1, clusterManifest, topics)
	bootstrap, _ := process.Start(t, s.Args()...).Ready(t)
	return s, bootstrap[0]
}

// need returns the path of a program. It skips the test if the program is missing, or if the
// program fails with the arguments try.
func need(t *testing.T, name string, try ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("skipped: %v", err)
	}
	if out, err := exec.CommandContext(t.Context(), path, try...).CombinedOutput(); err != nil {
		t.Skipf("skipped: %s %s: %v: %s", name, strings.Join(try, " "), err, out)
	}
	return path
}

// jars returns the Java class path of Kafka's clients and tools.
func jars(t *testing.T) string {
	t.Helper()
	folder := os.Getenv("KAFKA_LIB")
	if folder == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			t.Skipf("skipped: KAFKA_LIB is not set: %v", err)
		}
		folder = filepath.Join(home, ".cache", "kafka-lab", "lib")
	}
	if found, _ := filepath.Glob(filepath.Join(folder, "kafka-clients-*.jar")); len(found) == 0 {
		t.Skipf("skipped: no kafka-clients-*.jar in %s; KAFKA_LIB names another folder", folder)
	}
	return filepath.Join(folder, "*")
}

// javaTool returns the command line that runs one of Kafka's classes. It disables Java's optimizing
// compiler. During the second or two that a tool runs, this compiler would cost more time than it
// saves.
func javaTool(java, classes, class string) []string {
	return []string{java, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", classes, class}
}

// requests returns the number of requests that the broker has answered, by API.
func requests(t *testing.T, s process.Setup) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for _, metric := range s.Metrics(t)["heartwood_request_duration_seconds"].GetMetric() {
		for _, label := range metric.GetLabel() {
			if label.GetName() == "api" {
				counts[label.GetValue()] += int(metric.GetHistogram().GetSampleCount())
			}
		}
	}
	return counts
}

// checkIdle checks the number of requests that a consumer sent while it waited at the end of the
// topic. A consumer should send a fetch request every 500 ms, and sometimes a metadata request. A
// client that gets responses too early sends thousands. A slow machine only reduces the number, so
// the limit applies on every machine.
func checkIdle(t *testing.T, before, after map[string]int) {
	t.Helper()
	if before == nil || after == nil {
		t.Error("no requests were counted around the wait")
		return
	}
	all := 0
	for api, count := range after {
		if more := count - before[api]; more > 0 {
			t.Logf("while idle for %s: %d x %s", idle, more, api)
			all += more
		}
	}
	if limit := 2*int(idle.Seconds()) + 10; all > limit {
		t.Errorf("%d requests while idle, at most %d are expected", all, limit)
	}
}

func sum(family *dto.MetricFamily) int {
	total := 0.0
	for _, metric := range family.GetMetric() {
		total += metric.GetCounter().GetValue()
	}
	return int(total)
}

// output runs a program until it exits and returns its output.
func output(t *testing.T, stdin string, command ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Stdin = strings.NewReader(stdin)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(fmt.Errorf("%v: %w\n%s%s", command, err, out, stderr.String()))
	}
	return string(out)
}
