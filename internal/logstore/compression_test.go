package logstore

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/topicconfig"
)

func TestCompressionIsMeasuredWhereItHappens(t *testing.T) {
	// Not zstd: its decoder is one of the whole process and holds a channel, which must not be made
	// inside the bubble.
	config := compacted(func(s *topicconfig.Settings) {
		s.KeepCodec, s.Codec, s.CodecLevel = false,
			compress.Gzip, 7
	})
	inBubble(t, config, CleanerOptions{}, func(t *testing.T, f *cleanerFixture) {
		registry := prometheus.NewRegistry()
		registry.MustRegister(f.store.Collector())
		read := func(name, site string) float64 {
			value, series := total(t, registry, "heartwood_compression_"+name+"_total", "gzip", "7",
				site)
			if series != 1 {
				t.Errorf("%d series of %s at %s", series, name, site)
			}
			return value
		}
		batch := sent{keys: []string{"a", "b", "c", "d"},
			value: "a value that stands there four times", timestamp: time.Now()}.bytes(t)
		if _, err := f.log.Append(batch, time.Now()); err != nil {
			t.Fatal(err)
		}
		if in, out := read("input_bytes", siteProduce),
			read("output_bytes", siteProduce); in != float64(len(batch)-61) || out <= 0 ||
			out >= in {
			t.Errorf("%v bytes became %v; the records of the batch have %d", in, out, len(batch)-61)
		}
		if _, series := total(t, registry, "heartwood_compression_input_bytes_total",
			siteClean); series != 0 {
			t.Error("nothing was cleaned yet")
		}
		keys, _ := updates(40, 5)
		f.put(append(keys, "a", "b")...) // now two of the four are dead, and their batch is rebuilt
		f.put(keys...)
		wait(5 * time.Second)
		if in, out := read("input_bytes", siteClean),
			read("output_bytes", siteClean); in <= 0 || out <= 0 {
			t.Errorf("cleaning compressed %v bytes to %v", in, out)
		}
		_ = read("seconds", siteClean) // time stands still in the bubble; the series must be there
		if problems, err := testutil.CollectAndLint(f.store.Collector()); err != nil ||
			len(problems) > 0 {
			t.Errorf("%v, %v", problems, err)
		}
	})
}

func TestDefaultLevelAndItsNumberAreOneSeries(t *testing.T) {
	var meter compressionMeter
	chunks := compress.NewChunks()
	defer chunks.Release()
	for _, level := range []int{compress.LevelDefault, 3} {
		if err := meter.at(siteClean)(chunks, []byte("abc"), compress.Zstd, level); err != nil {
			t.Fatal(err)
		}
	}
	if err := meter.at(siteClean)(chunks, []byte("abc"), compress.Snappy,
		compress.LevelDefault); err != nil {
		t.Fatal(err)
	}
	if err := meter.at(siteClean)(chunks, nil, compress.Zstd, 99); err == nil {
		t.Error("level 99 is taken")
	}
	if got := meter.mu.sums[compressionKind{compress.Zstd, 3, siteClean}]; got.in != 6 ||
		len(meter.mu.sums) != 2 {
		t.Errorf("sums %v", meter.mu.sums)
	}
	snappy := compressionKind{compress.Snappy, 0, siteClean}
	// xerial header, length, block
	if got := meter.mu.sums[snappy]; got.in != 3 || got.out != 16+4+5 ||
		snappy.levelLabel() != "none" {
		t.Errorf("sum of snappy %v, level %s", got, snappy.levelLabel())
	}
}
