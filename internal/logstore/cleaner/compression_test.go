package cleaner

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"heartwood.dev/heartwood/internal/compress"
	storemetrics "heartwood.dev/heartwood/internal/logstore/collector"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/test/kit/storetest"
)

func TestCompressionMetricsBySite(t *testing.T) {
	// Use gzip and not zstd. The whole process shares the zstd decoder, which has a channel that
	// must not belong to a synctest bubble.
	config := compacted(func(s *topicconfig.Settings) {
		s.KeepCodec, s.Codec, s.CodecLevel = false, compress.Gzip, 7
	})
	inBubble(t, config, Options{}, func(t *testing.T, f *fixture) {
		registry := prometheus.NewRegistry()
		registry.MustRegister(storemetrics.New(f.store, nil))
		read := func(name, site string) float64 {
			value, series := total(t, registry, "heartwood_compression_"+name+"_total", "gzip", "7",
				site)
			if series != 1 {
				t.Errorf("%d series of %s at %s", series, name, site)
			}
			return value
		}
		batch := storetest.Batch{Keys: []string{"a", "b", "c", "d"},
			Value: "a value that is stored four times", Timestamp: time.Now()}.Bytes(t)
		if _, err := f.log.Append(batch, time.Now()); err != nil {
			t.Fatal(err)
		}
		if in, out := read("input_bytes", "produce"),
			read("output_bytes", "produce"); in != float64(len(batch)-61) || out <= 0 ||
			out >= in {
			t.Errorf("%v bytes became %v; the records of the batch have %d", in, out, len(batch)-61)
		}
		if _, series := total(t, registry, "heartwood_compression_input_bytes_total",
			"clean"); series != 0 {
			t.Error("a series of the cleaner before the first pass")
		}
		keys, _ := updatesOf(40, 5)
		// Supersede two of the batch's four records. The pass then rebuilds the batch.
		f.put(append(keys, "a", "b")...)
		f.put(keys...)
		wait(5 * time.Second)
		if in, out := read("input_bytes", "clean"),
			read("output_bytes", "clean"); in <= 0 || out <= 0 {
			t.Errorf("cleaning compressed %v bytes to %v", in, out)
		}
		// Check only that the series exists, because the time in the bubble does not advance during
		// a pass.
		_ = read("seconds", "clean")
		if problems, err := testutil.CollectAndLint(storemetrics.New(f.store, nil)); err != nil ||
			len(problems) > 0 {
			t.Errorf("%v, %v", problems, err)
		}
	})
}
