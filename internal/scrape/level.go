package scrape

import "sync/atomic"

// Level determines which of a partition's series a broker exports. The zero value exports the
// default series. A nil *Level exports all.
type Level struct{ full atomic.Bool }

// Set sets whether all of a partition's series are exported, starting with the next scrape.
func (l *Level) Set(full bool) { l.full.Store(full) }

// Full reports whether all of a partition's series are exported.
func (l *Level) Full() bool { return l == nil || l.full.Load() }
