package smoke

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/summary"
	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/ledger"
	"heartwood.dev/heartwood/test/kit/process"
	"heartwood.dev/heartwood/test/kit/traffic"
)

// limited is a cluster's manifest with placeholders for the cleaner's workers and I/O rate. At the
// rate slow, a pass over the data of load takes minutes on any machine, so the test can observe its
// progress. At the rate fast, a pass takes less than a second.
const (
	limited = `apiVersion: heartwood.dev/v1alpha1
kind: LogCluster
metadata: {name: smoke}
spec: {brokers: 1, cleaner: {workers: %d, ioRate: %s}, metrics: {partitions: Full}}
`
	slow, fast = "128Ki", "1Gi"
)

// onRequest returns a topic's manifest with the given compaction settings and the given value of
// the annotation clean-now.
func onRequest(compaction, annotation string) string {
	return fmt.Sprintf(`apiVersion: heartwood.dev/v1alpha1
kind: Topic
metadata: {name: tickets, annotations: {heartwood.dev/clean-now: %q}}
spec:
  cluster: smoke
  partitions: %d
  cleanupPolicy: Compact
  compaction: {%s}
  segment: {size: 256Ki}
`, annotation, partitions, compaction)
}

// load produces a few megabytes of records with 2,000 keys.
func load(t *testing.T, bootstrap []string, book *ledger.Ledger, seed uint64) {
	t.Helper()
	updates := traffic.Updates{Topic: "tickets", Keys: 2000, Rounds: 15, DeleteEvery: 5, Seed: seed}
	if err := traffic.Produce(process.WithDeadline(t), producer(t, bootstrap), book,
		updates); err != nil {
		t.Fatal(err)
	}
}

// series contains the name and further labels of each series that exists for each partition. Every
// series must exist from the start of the process.
var series = [][]string{
	{"cleaner_runs_total", "result", "success"}, {"cleaner_runs_total", "result", "nothing_to_do"},
	{"cleaner_runs_total", "result", "aborted"}, {"cleaner_runs_total", "result", "failed"},
	{"cleaner_read_bytes_total", "kind", "log"}, {"cleaner_read_bytes_total", "kind", "sidecar"},
	{"cleaner_written_bytes_total", "kind", "log"},
	{"cleaner_written_bytes_total", "kind", "sidecar"},
	{"cleaner_reclaimed_bytes_total", "kind", "log"},
	{"cleaner_reclaimed_bytes_total", "kind", "sidecar"},
	{"cleaner_removed_records_total", "kind", "log"},
	{"cleaner_removed_records_total", "kind", "sidecar"},
	{"cleaner_phase", "phase", "queued"}, {"cleaner_phase", "phase", "indexing"},
	{"cleaner_phase", "phase", "deduplicating"},
	{"cleaner_phase", "phase", "rewriting"}, {"cleaner_phase", "phase", "committing"},
	{"cleaner_progress_ratio"}, {"cleaner_overdue_seconds"},
	{"log_clean_bytes"}, {"log_dirty_bytes"}, {"log_dirty_ratio"},
	{"log_blocked_bytes", "reason", "active_segment"},
}

// transientSeries are series that are absent while their value is unknown: while no pass runs, or
// until the cleaner has measured the garbage.
var transientSeries = []string{"cleaner_eta_seconds", "log_reclaimable_bytes"}

// pool contains the series of the whole cleaner, which do not have the label partition.
var pool = []string{
	"cleaner_queue_length", "cleaner_workers_busy", "cleaner_memory_bytes",
	"cleaner_throttled_seconds_total", "cleaner_quarantined_partitions",
}

// single returns the value of a metric that has only one series, without labels.
func single(t *testing.T, m process.Metrics, name string) float64 {
	t.Helper()
	family := m["heartwood_"+name].GetMetric()
	if len(family) != 1 {
		t.Fatalf("%s has %d series, want one", name, len(family))
	}
	return family[0].GetGauge().GetValue() + family[0].GetCounter().GetValue()
}

// valueOf returns the value of a partition's series. The series must exist.
func valueOf(t *testing.T, m process.Metrics, partition int, name string,
	labels ...string) float64 {
	t.Helper()
	got, found := m.Value(name, "tickets", partition, labels...)
	if !found {
		t.Fatalf("partition %d has no series %s%v", partition, name, labels)
	}
	return got
}

// peaks contains the highest value of each series in several scrapes.
type peaks map[string]float64

func (p peaks) scrape(t *testing.T, m process.Metrics) {
	t.Helper()
	for _, s := range series {
		for partition := range partitions {
			p.add(strings.Join(s, " "), valueOf(t, m, partition, s[0], s[1:]...))
		}
	}
	for _, name := range pool {
		p.add(name, single(t, m, name))
	}
	for partition := range partitions {
		for _, name := range transientSeries {
			if value, found := m.Value(name, "tickets", partition); found {
				p.add(name, value)
			}
		}
		for _, reason := range []string{v1alpha1.ReasonCleaning, v1alpha1.ReasonQueued,
			v1alpha1.ReasonUpToDate, v1alpha1.ReasonBelowDirtyRatio,
			v1alpha1.ReasonActiveSegmentOnly} {
			if value, found := m.Value("cleaner_reason", "tickets", partition, "reason",
				reason); found {
				p.add("cleaner_reason "+reason, value)
			}
		}
	}
}

func (p peaks) add(name string, value float64) { p[name] = max(p[name], value) }

// heartwood runs the binary with args until it exits. It returns the exit code, stdout and stderr.
func heartwood(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	p := process.Start(t, args...)
	var lines []string
	var reading sync.WaitGroup
	reading.Go(func() { // otherwise a process that prints much would block
		for line := range p.Lines {
			lines = append(lines, line)
		}
	})
	code = p.Wait(t)
	reading.Wait()
	return code, strings.Join(lines, "\n"), p.Stderr.String()
}

// TestCleanIsObservable runs `heartwood clean --wait` on a running cluster and checks every metric
// of the cleaner.
func TestCleanIsObservable(t *testing.T) {
	t.Parallel()
	topic := onRequest("minDirtyPercent: 100", "")
	s := process.NewSetup(t, 1, fmt.Sprintf(limited, 1, slow), topic)
	p := process.Start(t, append(s.Args(), "--log-level", "info")...)
	bootstrap, _ := p.Ready(t)
	m := s.Metrics(t)
	for _, one := range series {
		for partition := range partitions {
			if got := valueOf(t, m, partition, one[0], one[1:]...); got != 0 {
				t.Errorf("initially partition %d has %s = %v, want 0", partition, one, got)
			}
		}
	}
	for _, name := range pool {
		if got := single(t, m, name); got != 0 {
			t.Errorf("initially %s is %v, want 0", name, got)
		}
	}
	if single(t, m, "cleaner_workers") != 1 ||
		single(t, m, "cleaner_memory_limit_bytes") != 128<<20 {
		t.Errorf("budget: %v workers, %v bytes", single(t, m, "cleaner_workers"),
			single(t, m, "cleaner_memory_limit_bytes"))
	}

	book := ledger.New()
	load(t, bootstrap, book, 1)
	clean := process.Start(t, "clean", "tickets", "--address", s.HTTP, "--wait")
	output := []string{}
	seen := peaks{}
	// The pass is slow (see limited). So the test can observe all metrics of a running pass.
	await.For(t, func() string {
		output = append(output, read(clean.Lines)...)
		seen.scrape(t, s.Metrics(t))
		if missing := seen.missing(metricsDuringAPass); len(missing) > 0 {
			return fmt.Sprintf("a pass is running, and these metrics are still 0: %q", missing)
		}
		if !slices.ContainsFunc(output, inProgress) {
			return fmt.Sprintf("the command has reported no progress: %q", output)
		}
		return ""
	})
	s.Apply(t, "cluster.yaml", fmt.Sprintf(limited, 1, fast)+"---\n"+topic)
	if code := clean.Wait(t); code != 0 {
		t.Fatalf("clean ended with code %d after %q, %s", code, output, clean.Stderr.String())
	}
	for line := range clean.Lines {
		output = append(output, line)
	}
	if last := output[len(output)-1]; !strings.HasPrefix(last,
		"tickets: 2 of 2 replicas cleaned, ") {
		t.Errorf("the last line is %q", last)
	}
	seen.scrape(t, s.Metrics(t))
	if missing := seen.missing(metricsAfterAPass); len(missing) > 0 {
		t.Errorf("the passes have ended, and these metrics are still 0: %q", missing)
	}
	for _, ratio := range []string{"cleaner_progress_ratio", "cleaner_workers_busy",
		"log_dirty_ratio"} {
		if seen[ratio] > 1 {
			t.Errorf("%s was %v", ratio, seen[ratio])
		}
	}
	checkAfter(t, s.Metrics(t))
	checkLog(t, p.Stderr.String())
	if kept := checkTopic(t, bootstrap, "tickets", book); kept > 2000 {
		t.Errorf("%d records of 2000 keys remain after a clean without garbage left", kept)
	}
	if code := p.Stop(t, syscall.SIGINT); code != 0 {
		t.Errorf("SIGINT ended the process with code %d", code)
	}
}

// metricsDuringAPass must be above 0 at some time during the passes, and metricsAfterAPass at their
// end. The cleaner's other metrics change too briefly to be observed here, or change only if a pass
// fails. Tests in internal/logstore/cleaner check them.
var (
	metricsDuringAPass = []string{
		"cleaner_reason Cleaning", "cleaner_phase phase indexing", "cleaner_progress_ratio",
		"cleaner_eta_seconds", "cleaner_memory_bytes",
		"cleaner_throttled_seconds_total", "log_dirty_bytes", "log_dirty_ratio",
		"log_blocked_bytes reason active_segment",
	}
	metricsAfterAPass = []string{
		"cleaner_runs_total result success", "cleaner_read_bytes_total kind log",
		"cleaner_read_bytes_total kind sidecar",
		"cleaner_written_bytes_total kind log", "cleaner_written_bytes_total kind sidecar",
		"cleaner_reclaimed_bytes_total kind log",
		"cleaner_removed_records_total kind log", "log_clean_bytes",
	}
)

// missing returns those given series whose highest value is 0.
func (p peaks) missing(names []string) (missing []string) {
	for _, name := range names {
		if p[name] <= 0 {
			missing = append(missing, name)
		}
	}
	return missing
}

// inProgress reports whether an output line of `heartwood clean` reports progress above 0 %.
func inProgress(line string) bool {
	return strings.Contains(line, " % done") && !strings.Contains(line, ", 0 % done")
}

// read returns the lines that are available now, without waiting for more.
func read(lines <-chan string) (all []string) {
	for {
		select {
		case line, more := <-lines:
			if !more {
				return all
			}
			all = append(all, line)
		default:
			return all
		}
	}
}

// checkAfter checks the series' values after all partitions were cleaned.
func checkAfter(t *testing.T, m process.Metrics) {
	t.Helper()
	for partition := range partitions {
		for _, zero := range [][]string{
			{"log_dirty_bytes"}, {"log_dirty_ratio"}, {"log_reclaimable_bytes"},
			{"cleaner_progress_ratio"},
			{"cleaner_phase", "phase", "rewriting"},
			{"log_blocked_bytes", "reason", "active_segment"},
		} {
			if got := valueOf(t, m, partition, zero[0], zero[1:]...); got != 0 {
				t.Errorf("partition %d: %v is %v after the clean", partition, zero, got)
			}
		}
		for _, one := range [][]string{
			{"log_reclaimable_exact"}, {"cleaner_phase", "phase", "idle"},
			{"cleaner_reason", "reason", v1alpha1.ReasonUpToDate},
		} {
			if got := valueOf(t, m, partition, one[0], one[1:]...); got != 1 {
				t.Errorf("partition %d: %v is %v after the clean", partition, one, got)
			}
		}
		cleaned := valueOf(t, m, partition, "cleaner_last_success_timestamp_seconds")
		if ago := time.Since(time.UnixMilli(int64(cleaned * 1000))); ago < -time.Second ||
			ago > await.Limit {
			t.Errorf("partition %d was cleaned %s ago", partition, ago)
		}
		if _, found := m.Value("cleaner_eta_seconds", "tickets", partition); found {
			t.Errorf("partition %d has an ETA, but no pass runs", partition)
		}
	}
}

// checkLog checks that the log contains one line for each pass, with the pass's cost and result.
func checkLog(t *testing.T, log string) {
	t.Helper()
	summaries := 0
	for line := range strings.SplitSeq(log, "\n") {
		if !strings.Contains(line, `msg="compaction completed"`) {
			if strings.Contains(line, "level=ERROR") || strings.Contains(line, "level=WARN") {
				t.Errorf("unexpected warning or error: %s", line)
			}
			continue
		}
		summaries++
		for _, words := range []string{
			" partition=tickets-", " result=success", " trigger=requested", " seconds=",
			" readBytes=", " writtenBytes=", " reclaimedBytes=",
			" sidecarReadBytes=", " sidecarWrittenBytes=", " removedRecords=",
			" removedTombstones=", " rewrittenSegments=", " untouchedSegments=",
			" memoryPeakBytes=",
		} {
			if !strings.Contains(line, words) {
				t.Errorf("%q is missing in %s", words, line)
			}
		}
	}
	if summaries != partitions {
		t.Errorf("%d summaries of passes, want one for each of %d partitions", summaries,
			partitions)
	}
}

// TestDisabledCleanerIsReported runs a cluster whose cleaner has no workers. The metrics must
// report that maxLag is exceeded and that the cleaner is disabled. `heartwood clean` must fail with
// the reason, and `heartwood topics` must print the reason.
func TestDisabledCleanerIsReported(t *testing.T) {
	t.Parallel()
	s := process.NewSetup(t, 1, fmt.Sprintf(limited, 0, fast), onRequest("maxLag: 1s", ""))
	bootstrap, _ := process.Start(t, s.Args()...).Ready(t)
	load(t, bootstrap, ledger.New(), 2)
	await.For(t, func() string {
		m := s.Metrics(t)
		for partition := range partitions {
			if valueOf(t, m, partition, "cleaner_overdue_seconds") <= 0 {
				return fmt.Sprintf("partition %d is not overdue", partition)
			}
			if got, _ := m.Value("cleaner_reason", "tickets", partition, "reason",
				v1alpha1.ReasonCleanerDisabled); got != 1 {
				return fmt.Sprintf("partition %d does not report that the cleaner is disabled",
					partition)
			}
		}
		return ""
	})
	for topic, want := range map[string]string{"tickets": "cleaner has no workers: set spec.cleaner.workers", "nothing": `unknown topic "nothing"`} {
		code, out, errOut := heartwood(t, "clean", topic, "--address", s.HTTP)
		if code != 1 || out != "" || !strings.Contains(errOut, want) {
			t.Errorf("clean %s: code %d, %q, %q", topic, code, out, errOut)
		}
	}
	code, out, errOut := heartwood(t, "topics", "--address", "http://"+s.HTTP)
	if code != 0 || !strings.Contains(
		out,
		"CleanerDisabled: The cleaner is disabled; to enable it, set spec.cleaner.workers of the LogCluster (2 of 2 partitions).",
	) {
		t.Errorf("topics: code %d, %s, %s", code, out, errOut)
	}
}

// TestCleanNowAnnotation sets a topic's annotation clean-now in the manifest. Each new value must
// start one pass per partition. A restart must not repeat the pass for a value that is done.
func TestCleanNowAnnotation(t *testing.T) {
	t.Parallel()
	s := process.NewSetup(t, 1, cluster, onRequest("minDirtyPercent: 100", ""))
	p := process.Start(t, s.Args()...)
	bootstrap, _ := p.Ready(t)
	book := ledger.New()
	load(t, bootstrap, book, 3)
	s.Apply(t, "cluster.yaml", cluster+"---\n"+onRequest("minDirtyPercent: 100", "monday"))
	wantDone := func(value string) {
		t.Helper()
		await.For(t, func() string {
			var answer summary.Topics
			s.GetJSON(t, "/api/v1/topics?topic=tickets", &answer)
			if len(answer.Topics) != 1 || answer.Topics[0].Compaction == nil ||
				answer.Topics[0].Compaction.CleanNow == nil {
				return fmt.Sprintf("no request in %+v", answer)
			}
			now := answer.Topics[0].Compaction.CleanNow
			if now.Value != value || now.State != v1alpha1.CleanNowDone || now.Replicas != "2/2" {
				return fmt.Sprintf("%+v", now)
			}
			return ""
		})
	}
	requested := func() (runs int64) {
		t.Helper()
		var answer report.Partitions
		s.GetJSON(t, "/api/v1/partitions?topic=tickets", &answer)
		for _, row := range answer.Partitions {
			runs += row.Compaction.CleanNowServed
		}
		return runs
	}
	wantDone("monday")
	if kept := checkTopic(t, bootstrap, "tickets", book); kept > 2000 || requested() != 2 {
		t.Errorf("%d records of 2000 keys remain, %d requests served", kept, requested())
	}
	if code := p.Stop(t, syscall.SIGINT); code != 0 {
		t.Fatalf("SIGINT ended the process with code %d", code)
	}
	process.Start(t, s.Args()...).Ready(t)
	wantDone("monday")
	if got := requested(); got != 0 {
		t.Errorf("%d requests after a restart for a completed value", got)
	}
	s.Apply(t, "cluster.yaml", cluster+"---\n"+onRequest("minDirtyPercent: 100", "tuesday"))
	wantDone("tuesday")

	code, out, errOut := heartwood(t, "clean", "tickets", "--address", s.HTTP, "--wait", "--json",
		"--partition", "1")
	var cleaning struct {
		Replicas []struct {
			Partition int
			State     string
			Pass      report.Pass
		}
	}
	if err := json.Unmarshal([]byte(out), &cleaning); err != nil || code != 0 {
		t.Fatalf("code %d, %v: %s %s", code, err, out, errOut)
	}
	if len(cleaning.Replicas) != 1 || cleaning.Replicas[0].Partition != 1 ||
		cleaning.Replicas[0].State != "done" || cleaning.Replicas[0].Pass.Trigger != "requested" {
		t.Errorf("%s", out)
	}
}
