package scrape

import "sync/atomic"

// Level is which series of a partition a broker exports. The zero value exports the default ones. A
// nil *Level exports all.
type Level struct{ full atomic.Bool }

// Set sets whether every series of a partition is exported. It applies from the next scrape on.
func (l *Level) Set(full bool) { l.full.Store(full) }

// Full reports whether every series of a partition is exported.
func (l *Level) Full() bool { return l == nil || l.full.Load() }
