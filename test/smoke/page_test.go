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

	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/process"
)

var update = flag.Bool("update", false, "write docs/operate/metrics.md instead of comparing it")

const (
	pageFile  = "../../docs/operate/metrics.md"
	tableHead = "| metric | type | labels | meaning |\n|---|---|---|---|\n"
	// detailHead is the text before the rows of the metrics that only the level Full includes.
	detailHead = "\n## Only with spec.metrics.partitions Full\n\n" + tableHead
)

// transient are metrics that sometimes have no series. The page can contain a row for such a metric
// although the process does not export it now.
var transient = map[string]bool{
	// exported only while a pass runs
	"heartwood_cleaner_eta_seconds":    true,
	"heartwood_cleaner_progress_ratio": true,
	// exported only while a log's garbage is known
	"heartwood_log_reclaimable_exact": true,
	// exported only while a group has committed offsets
	"heartwood_group_lag_offsets": true,
	// exported only while a transaction is open
	"heartwood_log_hanging_transactions":                 true,
	"heartwood_log_late_transactions":                    true,
	"heartwood_log_oldest_transaction_timestamp_seconds": true,
	// exported after the first round of the scrub, or while anything at rest is damaged
	"heartwood_scrub_checked_since_timestamp_seconds": true,
	"heartwood_scrub_damaged_segments":                true,
	// exported after a pass has rewritten and compressed a batch with dead records
	"heartwood_compression_input_bytes_total":  true,
	"heartwood_compression_output_bytes_total": true,
	"heartwood_compression_seconds_total":      true,
}

// checkMetricsPage checks that docs/operate/metrics.md lists exactly the metrics of a process that
// has served requests and exports every series of partitions. The page first lists the metrics of
// the default level, and then the others. So checkMetricsPage also applies the manifests with the
// default level.
func checkMetricsPage(t *testing.T, s process.Setup, client *kgo.Client, manifests string) {
	t.Helper()
	// This request must fail, because only then does the process export the metric of errors.
	if _, err := kadm.NewClient(client).CreateTopic(process.WithDeadline(t), -7, 1, nil,
		"no-such-number-of-partitions"); err == nil {
		t.Error("a topic with -7 partitions was created")
	}
	full := s.Metrics(t)
	s.Apply(t, "cluster.yaml", manifests)
	var basic process.Metrics
	await.For(t, func() string {
		if basic = s.Metrics(t); basic["heartwood_log_segments"] != nil {
			return "the process exports the metrics of level Full"
		}
		return ""
	})
	detail := process.Metrics{}
	for name, family := range full {
		if basic[name] == nil && !transient[name] {
			detail[name] = family
		}
	}
	page, err := os.ReadFile(pageFile)
	if err != nil {
		t.Fatal(err)
	}
	intro, tables, found := strings.Cut(string(page), tableHead)
	rows, detailRows, foundDetail := strings.Cut(tables, detailHead)
	if !found || !foundDetail {
		t.Fatalf("%s has no tables of metrics", pageFile)
	}
	exported, exportedDetail := exportedRows(basic, rows), exportedRows(detail, detailRows)
	if *update {
		if err := os.WriteFile(pageFile, []byte(intro+tableHead+strings.Join(exported, "")+
			detailHead+strings.Join(exportedDetail, "")), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	compareRows(t, exported, rows)
	compareRows(t, exportedDetail, detailRows)
	if t.Failed() {
		t.Log("regenerate the page: go test ./test/smoke -run Manifests -update")
	}
}

// exportedRows returns the rows of a table, sorted, including the written rows of transient metrics
// that are not exported now.
func exportedRows(metrics process.Metrics, written string) []string {
	exported := table(metrics)
	for row := range strings.Lines(written) {
		if transient[rowName(row)] &&
			!slices.ContainsFunc(exported,
				func(other string) bool { return rowName(other) == rowName(row) }) {
			exported = append(exported, row)
		}
	}
	slices.Sort(exported)
	return exported
}

func compareRows(t *testing.T, exported []string, written string) {
	t.Helper()
	rows := slices.Collect(strings.Lines(written))
	for _, row := range exported {
		if !slices.Contains(rows, row) {
			t.Errorf("%s lacks the row, or has a different one: %s", pageFile, row)
		}
	}
	for _, row := range rows {
		if !slices.Contains(exported, row) {
			t.Errorf("%s has a row of a metric that the binary does not export: %s", pageFile, row)
		}
	}
}

// table returns a row in the format of the page's table for each heartwood metric, sorted by name.
func table(exported process.Metrics) []string {
	var rows []string
	for _, name := range slices.Sorted(maps.Keys(exported)) {
		if !strings.HasPrefix(name, "heartwood_") {
			continue
		}
		family := exported[name]
		kind := strings.ToLower(dto.MetricType_name[int32(family.GetType())])
		rows = append(rows, fmt.Sprintf("| %s | %s | %s | %s |\n", "`"+name+"`", kind,
			strings.Join(labels(family), ", "), family.GetHelp()))
	}
	return rows
}

// rowName returns the metric's name in a row of the table.
func rowName(row string) string {
	_, name, _ := strings.Cut(row, "`")
	name, _, _ = strings.Cut(name, "`")
	return name
}

// labels returns the label names of a metric family. It omits the label broker, which only
// `heartwood dev` adds.
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
