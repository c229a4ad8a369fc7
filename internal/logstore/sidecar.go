package logstore

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"

	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// sidecars is what a log has of key sidecars (docs/format/keys.md), besides their files and the
// spools, which Log.mu guards.
//
// A sidecar is made by the cleaner's goroutine once its segment is sealed: from the spool that
// appends filled, or by a scan. Both wait for nothing an append needs. It appears under
// Log.maintain, so that it cannot come to lie beside data that a swap has put in the place of what
// it tells of.
type sidecars struct {
	// salt is nil until the log is compacted. Then it never changes while the log is open: spools
	// are hashed with it.
	salt  atomic.Pointer[keys.Salt]
	saved atomic.Bool // the salt's file is durable; written before the first sidecar that needs it
	// cleared is set once the directory of a log that is not compacted was rid of sidecars.
	cleared atomic.Bool
	// making is held by who makes a sidecar or removes some: one at a time, as names of temporary
	// files are shared. It is a channel and no mutex because it is held over I/O and waits for the
	// I/O budget, and those who wait must be able to give up.
	making chan struct{}

	// fault is why keys of a segment were not kept, until it is logged.
	fault atomic.Pointer[error]

	// What is made in the background costs; a pass counts what it makes itself.
	readBytes, writtenBytes atomic.Int64 // of sidecars and spools
	scannedBytes            atomic.Int64 // of data files
}

// spoolsMax is how many spools of rolled segments a log keeps until their sidecars are made. Where
// nobody makes any, or not fast enough, the oldest go: their segments will be scanned.
const spoolsMax = 4

// prepareSidecars has a compacted log hash the keys of what is appended from now on. It is called
// for each new config. A salt that is there but cannot be read keeps the log from collecting keys
// until the next start; nothing else hangs on it.
func (l *Log) prepareSidecars(c *config) {
	if !c.settings.Compact || l.sidecars.salt.Load() != nil {
		return
	}
	salt, saved, err := readSalt(l.env.fs, l.dir)
	if err != nil {
		l.env.logger.Warn("read the key salt", "partition", l.id, "error", err)
		return
	}
	l.sidecars.saved.Store(saved)
	l.sidecars.salt.Store(&salt)
}

// readSalt returns the salt of a directory, or a new one, which is not written yet, if there is
// none that can be used.
func readSalt(fsys vfs.FS, dir string) (salt keys.Salt, saved bool, err error) {
	content, err := fsys.ReadFile(filepath.Join(dir, keys.SaltFile))
	if err == nil {
		if salt, err = keys.DecodeSalt(content); err == nil {
			return salt, true, nil
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, keys.ErrCorrupt) {
		return salt, false, fmt.Errorf("%w: %w", ErrStorage, err)
	}
	_, _ = rand.Read(salt[:]) // never fails: crypto/rand ends the process instead
	return salt, false, nil
}

// saveSalt makes the salt durable. It comes before the first sidecar that is made with it: hashes
// whose salt a crash took would never match again. Before that nothing on disk depends on it, so
// that the making of a partition costs no sync for it.
func (l *Log) saveSalt() error {
	if l.sidecars.saved.Load() {
		return nil
	}
	if err := vfs.WriteFileAtomic(l.env.fs, filepath.Join(l.dir, keys.SaltFile),
		l.sidecars.salt.Load().Encode()); err != nil {
		return fmt.Errorf("%w: write the key salt: %w", ErrStorage, err)
	}
	l.sidecars.saved.Store(true)
	return nil
}

// keyCollector gathers the keys of one batch while it is validated.
type keyCollector struct {
	keys.Collector
	// bound once: a method value made for each batch would be an allocation for each
	add func(record.RecordKey)
}

var keyCollectors = sync.Pool{New: func() any {
	c := new(keyCollector)
	c.add = c.Add
	return c
}}

// takeCollector returns a collector for a batch, nil if nobody wants the keys. release gives it
// back.
func (l *Log) takeCollector(c *config) *keyCollector {
	salt := l.sidecars.salt.Load()
	if !c.settings.Compact || salt == nil {
		return nil
	}
	taken := keyCollectors.Get().(*keyCollector)
	taken.Hasher = salt.Hasher()
	return taken
}

func (c *keyCollector) release() {
	if c != nil {
		c.Reset()
		keyCollectors.Put(c)
	}
}

// spoolLocked notes the keys of a batch that was just appended. What goes wrong costs a scan later,
// and the append nothing: then there is no spool for this segment. It is safe to be left out for
// batches whose keys nobody collected: the next batch that is noted does not follow, which ends the
// spool. Log.mu is held.
func (l *Log) spoolLocked(b record.Parts, collected []keys.KeyedRecord) {
	active := l.list.Load().active()
	position := active.SizeBytes() - int64(b.SizeBytes())
	if l.mu.spool == nil {
		if position != 0 {
			return // begun before there was somebody to note it
		}
		name := filepath.Join(l.dir, segment.Name(active.Base(), keys.SpoolExtension, ""))
		l.mu.spool = keys.NewSpool(l.env.fs, name, active.Base(), *l.sidecars.salt.Load())
	}
	described := keys.Describe(b.Batch, position)
	described.SizeBytes = b.SizeBytes()
	if err := l.mu.spool.Append(described, collected); err != nil {
		l.discardSpool(l.mu.spool, err)
		l.mu.spool = nil
	}
}

// spoolMarkerLocked is spoolLocked for a control batch, whose key is not a user's. Log.mu is held.
func (l *Log) spoolMarkerLocked(b record.Batch, c *config) {
	if !c.settings.Compact || l.sidecars.salt.Load() == nil {
		return
	}
	var collected []keys.KeyedRecord
	err := b.Records(len(b), func(r *record.Record) error {
		collected = append(collected,
			keys.KeyedRecord{Record: keys.Record{BodyBytes: r.BodyBytes(), NullKey: true}})
		return nil
	})
	if err == nil { // else nothing is noted, and the next batch ends the spool
		l.spoolLocked(record.Whole(b), collected)
	}
}

// discardSpool lets go of a spool. cause is told to the next tendSidecars, which logs it: a log
// line must not be written under Log.mu, which some callers hold. A gap is no news: batches that
// were replicated are not noted.
func (l *Log) discardSpool(spool *keys.Spool, cause error) {
	if errors.Is(cause, keys.ErrMismatch) {
		cause = nil
	}
	if err := errors.Join(cause, spool.Discard()); err != nil {
		l.sidecars.fault.Store(&err)
	}
}

// rollSpoolLocked puts the spool of the segment that was active aside, for its sidecar. Log.mu is
// held.
func (l *Log) rollSpoolLocked(rolled *handle) {
	if l.mu.spool == nil {
		return
	}
	l.mu.spools = append(l.mu.spools, rolledSpool{rolled, l.mu.spool})
	l.mu.spool = nil
	if len(l.mu.spools) > spoolsMax {
		l.discardSpool(l.mu.spools[0].spool, nil)
		l.mu.spools = append([]rolledSpool(nil), l.mu.spools[1:]...)
	}
}

// rolledSpool is what is known of the keys of a segment that takes no appends any more.
type rolledSpool struct {
	segment *handle
	spool   *keys.Spool
}

// takeSpool returns the spool of a rolled segment, which is the caller's then; nil if there is
// none.
func (l *Log) takeSpool(h *handle) *keys.Spool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, s := range l.mu.spools {
		if s.segment == h {
			l.mu.spools = append(append([]rolledSpool(nil), l.mu.spools[:i]...),
				l.mu.spools[i+1:]...)
			return s.spool
		}
	}
	return nil
}

// cutSidecarsLocked is told, before the log end falls, that ordinals may come to stand for other
// records: nothing that is known of keys holds any more. A sidecar that is being made does not
// appear (buildSidecar); those of segments that are cut go with Segment.Truncate. Log.mu is held.
func (l *Log) cutSidecarsLocked() {
	l.discardSpoolsLocked()
	for _, h := range l.currentLocked() {
		h.sidecar.Store(nil)
	}
}

// discardSpoolsLocked ends what is noted of keys: when the log is closed, or not compacted any
// more. Log.mu is held.
func (l *Log) discardSpoolsLocked() {
	for _, s := range l.mu.spools {
		l.discardSpool(s.spool, nil)
	}
	if l.mu.spool != nil {
		l.discardSpool(l.mu.spool, nil)
	}
	l.mu.spool, l.mu.spools = nil, nil
}
