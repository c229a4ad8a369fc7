package logstore

import (
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"heartwood.dev/heartwood/internal/compress"
)

// Values of the label site of heartwood_compression_*: what the broker compressed a batch for. The
// metrics do not include a batch that keeps its producer's codec, because the broker does not
// compress it.
const (
	siteProduce = "produce" // an append
	siteClean   = "clean"   // a pass of the cleaner
)

var compressionLabels = []string{"codec", "level", "site"}

var (
	compressedInDesc = prometheus.NewDesc("heartwood_compression_input_bytes_total",
		"Bytes of the compressed records before compression.", compressionLabels, nil)
	compressedOutDesc = prometheus.NewDesc("heartwood_compression_output_bytes_total",
		"Bytes of the compressed records after compression.", compressionLabels, nil)
	compressedTimeDesc = prometheus.NewDesc("heartwood_compression_seconds_total",
		"Time spent compressing records, including waits for a processor.", compressionLabels, nil)
)

// compressionMeter counts the batches that the logs of a store compress. The metrics have one
// series for each codec, level and site in use. Codecs and levels are settings of topics, and
// clients cannot choose them, so the number of series stays small. The zero value is ready to use.
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
	in, out int64         // bytes of records before and after compression
	spent   time.Duration // wall-clock time
}

// at returns compress.To wrapped with a measurement for the site. The wrapper holds the lock only
// while it adds to the counters.
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
	// The label is the actual level, so the default level and an equal explicit level share one
	// series.
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

// collect sends the counters to the channel. It copies them first: the channel may block, and
// appends must not wait for a scrape of the metrics.
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

// levelLabel returns the number of the level, or "none" for a codec without levels.
func (k compressionKind) levelLabel() string {
	if _, _, _, leveled := k.codec.Levels(); !leveled {
		return "none"
	}
	return strconv.Itoa(k.level)
}
