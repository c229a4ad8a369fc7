package smoke

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/process"
)

// placedTopic describes a topic whose records are retained when it is deleted.
const placedTopic = `apiVersion: heartwood.dev/v1alpha1
kind: Topic
metadata: {name: tickets}
spec: {cluster: smoke, partitions: 2, replicas: 3, minInSyncReplicas: 2}
`

// TestPartitionsAreListed runs `heartwood partitions` on three brokers. All replicas must become in
// sync. After the topic is deleted, its partitions must be listed as retained.
func TestPartitionsAreListed(t *testing.T) {
	t.Parallel()
	cluster := strings.Replace(fmt.Sprintf(limited, 1, fast), "brokers: 1", "brokers: 3", 1)
	s := process.NewSetup(t, 3, cluster, placedTopic)
	process.Start(t, s.Args()...).Ready(t)
	list := func(flags ...string) [][]string {
		t.Helper()
		code, out, errOut := heartwood(t,
			append([]string{"partitions", "--address", s.HTTP}, flags...)...)
		if code != 0 {
			t.Fatalf("exit code %d: %s", code, errOut)
		}
		var rows [][]string
		for line := range strings.Lines(out) {
			rows = append(rows, strings.Fields(line))
		}
		return rows[1:]
	}
	await.For(t, func() string {
		rows := list("tickets")
		if len(rows) != 2 {
			return fmt.Sprintf("%d partitions: %v", len(rows), rows)
		}
		for i, row := range rows {
			if len(row) != 8 || row[1] != fmt.Sprint(i) {
				return fmt.Sprintf("got row %q, want partition %d", row, i)
			}
			if strings.Count(row[5], ",") != 2 {
				return fmt.Sprintf("in sync: %s, want three replicas", row[5])
			}
			if row[6] != "0" || row[7] != "-" {
				return fmt.Sprintf("lag %s, note %s, want none", row[6], row[7])
			}
		}
		return ""
	})
	s.Apply(t, "cluster.yaml", cluster)
	await.For(t, func() string {
		rows := list("--retained")
		if len(rows) != 2 || rows[0][0] != "tickets" || strings.Count(rows[1][3], ",") != 2 {
			return fmt.Sprintf("retained: %v", rows)
		}
		code, out, errOut := heartwood(t, "partitions", "tickets", "--address", s.HTTP)
		if code != 1 || out != "" || !strings.Contains(errOut, `unknown topic "tickets"`) {
			return fmt.Sprintf("partitions of a deleted topic: %d %s %s", code, out, errOut)
		}
		return ""
	})

	// Without the consent, a later topic of the same name would continue with the records; see
	// test/sim.
	id := list("--retained")[0][4]
	if logs := retainedLogs(t, s.DataDir); len(logs) != 6 {
		t.Fatalf("retained logs: %v, want one for each replica", logs)
	}
	s.Apply(t, "cluster.yaml", strings.Replace(cluster, "metadata: {name: smoke",
		"metadata: {annotations: {heartwood.dev/remove-retained: tickets="+id+"}, name: smoke", 1))
	await.For(t, func() string {
		if rows := list("--retained"); len(rows) != 0 {
			return fmt.Sprintf("still retained: %v", rows)
		}
		if logs := retainedLogs(t, s.DataDir); len(logs) != 0 {
			return fmt.Sprintf("retained logs: %v", logs)
		}
		return ""
	})
}

// retainedLogs returns the directories of all brokers' retained logs.
func retainedLogs(t *testing.T, data string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(data, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && (strings.HasSuffix(path, "-retained") ||
			strings.HasSuffix(path, "-delete")) {
			found = append(found, path)
		}
		return nil // a directory may have been deleted meanwhile
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
