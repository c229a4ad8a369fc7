package collector

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// metricsStore returns a store with a plain log and a compacted log. The compacted log has five
// segments, the first of which is clean.
func metricsStore(t *testing.T) (*logstore.Store, *logstore.Log) {
	t.Helper()
	store, err := logstore.Open(logstore.Options{FS: vfs.NewMem(), Dir: "/data",
		Logger: slog.New(slog.DiscardHandler), FlushInterval: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	create := func(topic string, index int32, settings topicconfig.Settings) *logstore.Log {
		log, err := store.Create(logstore.PartitionID{Topic: topic, Index: index},
			logstore.TopicID{byte(index) + 1}, settings, false)
		if err != nil {
			t.Fatal(err)
		}
		return log
	}
	create("plain", 3, storetest.Settings(nil))
	log := create("tickets", 0, storetest.Compacted(nil))
	for log.Stats().Segments < 5 {
		batch := storetest.Batch{Keys: []string{fmt.Sprintf("k%d", log.LogEnd())}}
		if _, err := log.Append(batch.Bytes(t), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	log.AdvanceHighWatermark(log.LogEnd())
	rows, err := log.Compaction().SegmentRows(0, 5, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Compaction().Progress.SetFirstDirty(rows.Rows[1].Base); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "all segments but the active one are sealed", func() bool {
		sections, _ := log.Compaction().Sections(time.Now())
		return sections.Segments == 4
	})
	return store, log
}

func TestLogMetrics(t *testing.T) {
	store, log := metricsStore(t)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(New(store, nil))
	for name, want := range map[string]int{
		"heartwood_log_size_bytes": 2, "heartwood_log_segments": 2, "heartwood_log_start_offset": 2,
		"heartwood_log_end_offset":     2,
		"heartwood_log_high_watermark": 2, "heartwood_log_last_stable_offset": 2,
		"heartwood_log_syncs_total": 2, "heartwood_log_sync_seconds_total": 2,
		"heartwood_log_clean_bytes": 1, "heartwood_log_dirty_bytes": 1,
		"heartwood_log_dirty_ratio": 1, "heartwood_log_blocked_bytes": 5,
	} {
		if got, err := testutil.GatherAndCount(registry, name); err != nil || got != want {
			t.Errorf("%s: %d series, want %d; %v", name, got, want, err)
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	rows, err := log.Compaction().SegmentRows(0, 5, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var total, active int64
	for _, row := range rows.Rows {
		total, active = total+row.SizeBytes, row.SizeBytes
	}
	clean := rows.Rows[0].SizeBytes
	values := map[string]float64{
		"heartwood_log_size_bytes": float64(total), "heartwood_log_segments": 5,
		"heartwood_log_end_offset":  float64(log.LogEnd()),
		"heartwood_log_clean_bytes": float64(clean),
		"heartwood_log_dirty_bytes": float64(total - active - clean),
		"heartwood_log_dirty_ratio": float64(total-active-clean) / float64(total-active),
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			labels := metric.GetLabel()
			want, checked := values[family.GetName()]
			if checked && labels[len(labels)-1].GetValue() == "tickets" &&
				metric.GetGauge().GetValue() != want {
				t.Errorf("%s is %v, want %v", family.GetName(), metric.GetGauge().GetValue(), want)
			}
		}
	}
}
