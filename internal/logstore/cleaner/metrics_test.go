package cleaner

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"heartwood.dev/heartwood/internal/logstore/clean"
	storemetrics "heartwood.dev/heartwood/internal/logstore/collector"
)

// total returns the sum and the number of those series of a metric whose label values include the
// given ones.
func total(t *testing.T, registry *prometheus.Registry, name string,
	labels ...string) (value float64, series int) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			text := metric.String()
			matches := true
			for _, label := range labels {
				matches = matches && strings.Contains(text, `"`+label+`"`)
			}
			if matches {
				value += metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
				series++
			}
		}
	}
	return value, series
}

func TestCleanerMetrics(t *testing.T) {
	inBubble(t, compacted(nil), Options{MemoryBytes: 5000000, Workers: 2},
		func(t *testing.T, f *fixture) {
			registry := prometheus.NewRegistry()
			registry.MustRegister(storemetrics.New(f.store, nil), f.cleaner.Collector(nil))
			want := func(value float64, name string, labels ...string) {
				t.Helper()
				if got, n := total(t, registry, "heartwood_"+name, labels...); got != value ||
					n != 1 {
					t.Errorf("%s%v is %g in %d series, want %g in one", name, labels, got, n, value)
				}
			}
			// Counters exist at 0 before the first pass.
			for _, result := range runResults {
				want(0, "cleaner_runs_total", "tickets", result)
			}
			for _, name := range []string{"read_bytes", "written_bytes", "reclaimed_bytes",
				"removed_records"} {
				want(0, "cleaner_"+name+"_total", "tickets", "log")
				want(0, "cleaner_"+name+"_total", "tickets", "sidecar")
			}
			want(1, "cleaner_phase", "idle")
			want(0, "log_reclaimable_exact")
			want(5000000, "cleaner_memory_limit_bytes")
			want(2, "cleaner_workers")

			keys, _ := updatesOf(50, 5)
			f.put(keys...)
			wait(5 * time.Second)
			status := f.cleaner.Status(partition)
			want(1, "cleaner_runs_total", "success")
			want(float64(status.ReadBytes), "cleaner_read_bytes_total", "log")
			want(float64(status.ReclaimedBytes), "cleaner_reclaimed_bytes_total", "log")
			want(*status.LastSuccess, "cleaner_last_success_timestamp_seconds")
			want(1, "log_reclaimable_exact")
			want(0, "log_dirty_ratio")
			want(0, "cleaner_quarantined_partitions")
			want(0, "log_blocked_bytes", "quarantined")

			f.put("kept")
			position := f.log.LogEnd() - 1
			f.put(append(keys, keys...)...)
			f.flipBit(f.log, position)
			wait(5 * time.Second)
			want(1, "cleaner_quarantined_partitions")
			want(float64(f.cleaner.Status(partition).DirtyBytes), "log_blocked_bytes",
				"quarantined")
			if problems, err := testutil.CollectAndLint(f.cleaner.Collector(nil)); err != nil ||
				len(problems) > 0 {
				t.Errorf("%v, %v", problems, err)
			}
		})
}

// TestPhaseMetrics checks that while a pass waits in a phase, the phase metric is 1 for this phase
// and 0 for all other phases, and the metrics of the whole cleaner match.
func TestPhaseMetrics(t *testing.T) {
	for phase, pool := range map[string]struct{ queued, busy float64 }{
		// In phase indexing the pass has released its worker slot, because a sidecar is being
		// built.
		"queued": {1, 1}, "indexing": {0, 0}, "deduplicating": {0, 1}, "rewriting": {0, 1},
	} {
		t.Run(phase, func(t *testing.T) {
			inBubble(t, slowPass(nil), Options{Logger: quiet()},
				func(t *testing.T, f *fixture) {
					f.holdInPhase(phase)
					registry := prometheus.NewRegistry()
					registry.MustRegister(storemetrics.New(f.store, nil), f.cleaner.Collector(nil))
					for _, one := range clean.Phases {
						if got, n := total(t, registry, "heartwood_cleaner_phase", "tickets",
							one.String()); got != boolean(one.String() == phase) || n != 1 {
							t.Errorf("%s: %g in %d series", one, got, n)
						}
					}
					for name, want := range map[string]float64{"queue_length": pool.queued,
						"workers_busy": pool.busy, "workers": 1} {
						if got, n := total(t, registry, "heartwood_cleaner_"+name); got != want ||
							n != 1 {
							t.Errorf("%s is %g in %d series, want %g", name, got, n, want)
						}
					}
					if memory, _ := total(t, registry,
						"heartwood_cleaner_memory_bytes"); (memory > 0) != (phase != "queued") {
						t.Errorf("memory_bytes is %g", memory)
					}
				})
		})
	}
}
