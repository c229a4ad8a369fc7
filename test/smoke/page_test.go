package smoke

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/test/kit/process"
)

var update = flag.Bool("update", false, "write docs/metrics.md instead of comparing it")

const (
	pageFile  = "../../docs/metrics.md"
	tableHead = "| metric | type | labels | meaning |\n|---|---|---|---|\n"
)

// transient are the metrics that have a series at times only, so the page may have their row though
// nothing shows it now.
var transient = map[string]bool{
	"heartwood_cleaner_eta_seconds": true, // while a pass runs
	// Once a batch was compressed, which is the case when a pass meets one that lives in part.
	"heartwood_compression_input_bytes_total":  true,
	"heartwood_compression_output_bytes_total": true,
	"heartwood_compression_seconds_total":      true,
}

// checkMetricsPage compares docs/metrics.md with what a process shows that has had some work.
func checkMetricsPage(t *testing.T, s process.Setup, client *kgo.Client) {
	t.Helper()
	// An error, so that the metric of errors has a series.
	if _, err := kadm.NewClient(client).CreateTopic(process.Limited(t), -7, 1, nil,
		"no-such-number-of-partitions"); err == nil {
		t.Error("a topic of -7 partitions was made")
	}
	page, err := os.ReadFile(pageFile)
	if err != nil {
		t.Fatal(err)
	}
	intro, written, found := strings.Cut(string(page), tableHead)
	if !found {
		t.Fatalf("%s has no table of metrics", pageFile)
	}
	shown := table(s.Metrics(t))
	rows := slices.DeleteFunc(strings.SplitAfter(written, "\n"),
		func(row string) bool { return row == "" })
	for _, row := range rows {
		if transient[rowName(row)] &&
			!slices.ContainsFunc(shown,
				func(other string) bool { return rowName(other) == rowName(row) }) {
			shown = append(shown, row)
		}
	}
	slices.Sort(shown)
	if *update {
		if err := os.WriteFile(pageFile, []byte(intro+tableHead+strings.Join(shown, "")),
			0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, row := range shown {
		if !slices.Contains(rows, row) {
			t.Errorf("%s lacks the row, or has another of that name: %s", pageFile, row)
		}
	}
	for _, row := range rows {
		if !slices.Contains(shown, row) {
			t.Errorf("%s has a row that the binary does not show: %s", pageFile, row)
		}
	}
	if t.Failed() {
		t.Log("write the page anew: go test ./test/smoke -run Manifests -update")
	}
}

// table gives a row for each metric of ours, sorted by name.
func table(shown process.Metrics) []string {
	var rows []string
	for _, name := range slices.Sorted(maps.Keys(shown)) {
		if !strings.HasPrefix(name, "heartwood_") {
			continue
		}
		family := shown[name]
		kind := strings.ToLower(dto.MetricType_name[int32(family.GetType())])
		rows = append(rows, fmt.Sprintf("| %s | %s | %s | %s |\n", "`"+name+"`", kind,
			strings.Join(labels(family), ", "), family.GetHelp()))
	}
	return rows
}

// rowName is the metric that a row tells of.
func rowName(row string) string {
	_, name, _ := strings.Cut(row, "`")
	name, _, _ = strings.Cut(name, "`")
	return name
}

// labels are the names of a family's labels. The broker's is left out: only dev has it.
func labels(family *dto.MetricFamily) []string {
	names := map[string]bool{}
	for _, one := range family.GetMetric() {
		for _, label := range one.GetLabel() {
			names[label.GetName()] = true
		}
	}
	delete(names, "broker")
	return slices.Sorted(maps.Keys(names))
}
