// Package compressmeter counts the batches that the logs of a store compress, for the metrics.
package compressmeter

import (
	"sync"
	"time"

	"heartwood.dev/heartwood/internal/compress"
)

// Values of Kind.Site: the purposes for which the broker compresses a batch. The sums do not
// include a batch that keeps its producer's codec, because the broker does not compress it.
const (
	SiteProduce = "produce" // an append
	SiteClean   = "clean"   // a pass of the cleaner
)

// Meter counts the batches that the logs of a store compress. It has one sum for each codec, level
// and site in use. Codecs and levels are settings of topics, and clients cannot choose them, so the
// number of sums stays small. The zero value is ready to use.
type Meter struct {
	mu struct {
		sync.Mutex
		sums map[Kind]amounts
	}
}

// Kind identifies one of the sums.
type Kind struct {
	Codec compress.Codec
	Level int
	Site  string
}

// Sum contains the sums over all batches of one Kind. Its values never fall.
type Sum struct {
	Kind
	In, Out int64         // bytes of records before and after compression
	Spent   time.Duration // wall-clock time
}

type amounts struct {
	in, out int64
	spent   time.Duration
}

// At returns a function that calls compress.To and measures the call for the site. The function
// holds the lock only while it adds to the sums.
func (m *Meter) At(site string) compress.Func {
	return func(dst *compress.Chunks, src []byte, codec compress.Codec, level int) error {
		before, began := dst.Len(), time.Now()
		err := compress.To(dst, src, codec, level)
		if err == nil {
			m.add(Kind{codec, level, site},
				amounts{int64(len(src)), int64(dst.Len() - before), time.Since(began)})
		}
		return err
	}
}

func (m *Meter) add(kind Kind, one amounts) {
	// The sum is selected by the actual level, so the default level and an equal explicit level
	// share one sum.
	if kind.Level == compress.LevelDefault {
		_, _, kind.Level, _ = kind.Codec.Levels()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.sums == nil {
		m.mu.sums = map[Kind]amounts{}
	}
	sum := m.mu.sums[kind]
	m.mu.sums[kind] = amounts{sum.in + one.in, sum.out + one.out, sum.spent + one.spent}
}

// Sums returns copies of all sums. A metrics scrape may block while it sends the sums, and appends
// must not wait for it.
func (m *Meter) Sums() []Sum {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]Sum, 0, len(m.mu.sums))
	for kind, sum := range m.mu.sums {
		all = append(all, Sum{kind, sum.in, sum.out, sum.spent})
	}
	return all
}
