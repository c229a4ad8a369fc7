package logstore

import (
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"heartwood.dev/heartwood/internal/compress"
)

// Where batches are compressed: label values of heartwood_compression_*. A batch that stays in its
// producer's codec is not compressed here, and does not count.
const (
	// Where batches are compressed: label values of heartwood_compression_*. A batch that stays in
	// its producer's codec is not compressed by the broker, and does not count.
	siteProduce = "produce"
	siteClean   = "clean"
)

var compressionLabels = []string{"codec", "level", "site"}

var (
	compressedInDesc = prometheus.NewDesc("heartwood_compression_input_bytes_total",
		"Bytes of records that were compressed, before.", compressionLabels, nil)
	compressedOutDesc = prometheus.NewDesc("heartwood_compression_output_bytes_total",
		"Bytes of records that were compressed, after.", compressionLabels, nil)
	compressedTimeDesc = prometheus.NewDesc("heartwood_compression_seconds_total",
		"Time spent compressing records, waits for a processor included.", compressionLabels, nil)
)

// compressionMeter counts the batches that the logs of a store compress. It has one set of series
// per codec and level in use. Codecs and levels come from the settings of topics, never from
// clients. The zero value is ready.
type compressionMeter struct {
	mu struct {
		sync.Mutex
		sums map[compressionKind]compressionSum
	}
}

// compressionKind is one set of label values: it identifies one series of each metric.
type compressionKind struct {
	codec compress.Codec
	level int
	site  string
}

// compressionSum holds the counters of one compressionKind. Its values only rise.
type compressionSum struct {
	in, out int64         // bytes of records, before and after
	spent   time.Duration // wall clock
}

// at returns compress.To wrapped with a measurement for site. It holds the lock only while it adds
// to the counters.
func (m *compressionMeter) at(site string) compress.Func {
	return func(dst *compress.Chunks, src []byte, codec compress.Codec, level int) error {
		before, began := dst.Len(), time.Now()
		err := compress.To(dst, src, codec, level)
		if err == nil {
			m.add(compressionKind{codec, level, site},
				compressionSum{int64(len(src)), int64(dst.Len() - before), time.Since(began)})
		}
		return err
	}
}

func (m *compressionMeter) add(kind compressionKind, one compressionSum) {
	// The actual level is the label, so that the default level and the same explicit level share
	// one series.
	if kind.level == compress.LevelDefault {
		_, _, kind.level, _ = kind.codec.Levels()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.sums == nil {
		m.mu.sums = map[compressionKind]compressionSum{}
	}
	sum := m.mu.sums[kind]
	m.mu.sums[kind] = compressionSum{sum.in + one.in, sum.out + one.out, sum.spent + one.spent}
}

// collect sends the counters. It copies them first: the channel may block, and appends must not
// wait for a scrape.
func (m *compressionMeter) collect(metrics chan<- prometheus.Metric) {
	m.mu.Lock()
	sums := maps.Clone(m.mu.sums)
	m.mu.Unlock()
	for kind, sum := range sums {
		labels := []string{kind.codec.String(), kind.levelLabel(), kind.site}
		metrics <- counter(compressedInDesc, float64(sum.in), labels...)
		metrics <- counter(compressedOutDesc, float64(sum.out), labels...)
		metrics <- counter(compressedTimeDesc, sum.spent.Seconds(), labels...)
	}
}

// levelLabel returns the level's number, "none" for a codec without levels.
func (k compressionKind) levelLabel() string {
	if _, _, _, leveled := k.codec.Levels(); !leveled {
		return "none"
	}
	return strconv.Itoa(k.level)
}
