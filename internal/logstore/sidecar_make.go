package logstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
)

// sidecarNote is what is known of a segment's sidecar. It is immutable, behind handle.sidecar; nil:
// nobody has looked yet.
type sidecarNote struct {
	// of the data file when the note was taken: a segment that was truncated since has another size
	logBytes int64
	digest   uint64 // of the sidecar that is there; 0: there is none
	verified bool   // the sidecar was held against the data, or made from it
	records  int    // of the sidecar that is there, or was; else an estimate
	retry    time.Time
}

// sidecarOptions bound the making of a sidecar. read is told of the bytes that are read of the
// segment; Spend of all others.
type sidecarOptions struct {
	keys.Options
	read       func(ctx context.Context, n int) error // may be nil
	maker      sidecarMaker
	background bool // no pass accounts for it: the log does
}

// sidecarMaker lends the right to make a sidecar, one at a time in all logs, for the memory it
// takes. It is taken before the right to make sidecars of a log (sidecars.making). The zero value
// always lends it.
type sidecarMaker struct {
	lock   func(ctx context.Context) error
	unlock func()
}

func (m sidecarMaker) take(ctx context.Context) error {
	if m.lock == nil {
		return nil
	}
	return m.lock(ctx)
}

func (m sidecarMaker) give() {
	if m.unlock != nil {
		m.unlock()
	}
}

// sidecarRetry is how long a segment whose sidecar could not be made is left alone.
const sidecarRetry = time.Minute

// noted returns what is known of the segment's sidecar, nil if nothing that still holds.
func (h *handle) noted() *sidecarNote {
	note := h.sidecar.Load()
	if note == nil || note.logBytes != h.SizeBytes() {
		return nil
	}
	return note
}

// sidecarName is where the sidecar of a segment of the log lies.
func (l *Log) sidecarName(base int64) string {
	return filepath.Join(l.dir, segment.Name(base, keys.Extension, ""))
}

// errNoKeys is returned for a segment whose keys cannot be had: the log is not compacted, or its
// salt cannot be read.
var errNoKeys = errors.New("the log keeps no keys")

// openKeys opens the sidecar of a sealed segment, for a pass of the cleaner, and makes it first
// where it is missing or cannot be used. It fails with errSegmentsChanged if the segment is not the
// log's any more. The caller closes the reader, and calls trimSidecars when the pass is over.
func (l *Log) openKeys(ctx context.Context, s *segment.Segment, opts sidecarOptions) (*keys.Reader,
	error) {
	h, err := l.holdSegment(s)
	if err != nil {
		return nil, err
	}
	defer h.release()
	reader, err := l.openSidecar(h, true)
	if err == nil || !keys.Unusable(err) && !errors.Is(err, fs.ErrNotExist) {
		return reader, err
	}
	if err := opts.maker.take(ctx); err != nil {
		return nil, err
	}
	defer opts.maker.give()
	if err := l.lockSidecars(ctx); err != nil {
		return nil, err
	}
	defer l.unlockSidecars()
	if reader, err = l.openSidecar(h, true); err == nil {
		return reader, nil // somebody else made it meanwhile
	}
	if err := l.makeSidecar(ctx, h, opts); err != nil {
		return nil, err
	}
	return l.openSidecar(h, true)
}

// holdSegment returns a segment of the log, which the caller releases. The others are not held: the
// making of a sidecar may take long.
func (l *Log) holdSegment(s *segment.Segment) (*handle, error) {
	list := l.acquire()
	if list == nil {
		return nil, ErrClosed
	}
	defer list.release()
	for _, h := range list.handles {
		if h.Segment == s {
			h.acquire()
			return h, nil
		}
	}
	return nil, errSegmentsChanged
}

func (l *Log) lockSidecars(ctx context.Context) error {
	select {
	case l.sidecars.making <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *Log) unlockSidecars() { <-l.sidecars.making }

// openSidecar opens the sidecar of a segment. One that this process has not made is held against
// the data before it is used.
func (l *Log) openSidecar(h *handle, verify bool) (*keys.Reader, error) {
	salt := l.sidecars.salt.Load()
	if salt == nil {
		return nil, errNoKeys
	}
	want := keys.Expect{Identity: keys.Identity{Base: h.Base(), LogBytes: h.SizeBytes()},
		SaltID: salt.ID()}
	known := h.noted()
	if known != nil {
		want.Digest = known.digest
	}
	reader, err := keys.Open(l.env.fs, l.sidecarName(h.Base()), want)
	if err != nil {
		return nil, err
	}
	note := sidecarNote{logBytes: want.LogBytes, digest: reader.Identity().Digest,
		records: reader.Counts().Records, verified: verify}
	if known != nil && known.digest != 0 && known.verified {
		note.verified = true
	} else if verify {
		if err := reader.Verify(h.File()); err != nil {
			return nil, errors.Join(err, reader.Close())
		}
	}
	h.sidecar.Store(&note)
	return reader, nil
}

// makeSidecar makes the sidecar of a sealed segment, from its spool or by a scan. The right to make
// is held.
func (l *Log) makeSidecar(ctx context.Context, h *handle, opts sidecarOptions) error {
	if l.sidecars.salt.Load() == nil {
		return errNoKeys
	}
	if err := l.saveSalt(); err != nil {
		return err
	}
	cuts := l.cutsNow()
	spool, err := l.takeSpool(h), error(nil)
	if spool != nil {
		if err = l.buildSidecar(ctx, h, cuts, spool, opts); errors.Is(err, keys.ErrMismatch) ||
			keys.Unusable(err) {
			l.env.logger.Warn("noted keys do not fit their segment: it is scanned", "partition",
				l.id, "segment", h.Base(), "error", err)
			spool, err = nil, nil
		}
	}
	if spool == nil && err == nil {
		err = l.scanSidecar(ctx, h, cuts, opts)
	}
	if err != nil {
		return fmt.Errorf("make the key sidecar of segment %d: %w", h.Base(), err)
	}
	return nil
}

// scanHeldBytes is how much of what a scan notes stays in memory, and is never written and read
// again: some 200,000 records, as a gibibyte of records of 5 KB has. One scan runs at a time in a
// log.
const scanHeldBytes = 4 << 20

// scanSidecar makes a sidecar from the data.
func (l *Log) scanSidecar(ctx context.Context, h *handle, cuts int, opts sidecarOptions) error {
	salt := *l.sidecars.salt.Load()
	name := filepath.Join(l.dir, segment.Name(h.Base(), keys.SpoolExtension, ""))
	spool := keys.NewSpool(l.env.fs, name, h.Base(), salt)
	spool.Hold(scanHeldBytes)
	scan := keys.ScanOptions{Read: func(n int) error {
		if opts.background {
			l.sidecars.scannedBytes.Add(int64(n))
		}
		if err := ctx.Err(); err != nil || opts.read == nil {
			return err
		}
		return opts.read(ctx, n)
	}}
	if err := keys.Scan(h.Segment, salt.Hasher(), spool, scan); err != nil {
		l.discardSpool(spool, nil)
		return err
	}
	return l.buildSidecar(ctx, h, cuts, spool, opts)
}

// buildSidecar makes a sidecar from a spool, which it ends. It appears only if its segment is still
// the log's, as Log.maintain decides.
func (l *Log) buildSidecar(ctx context.Context, h *handle, cuts int, spool *keys.Spool,
	opts sidecarOptions) error {
	defer l.discardSpool(spool, nil)
	identity := keys.Identity{Base: h.Base(), LogBytes: h.SizeBytes()}
	opts.Data = h.File()
	opts.Commit = func(publish func() error) error {
		l.maintain.Lock()
		defer l.maintain.Unlock()
		if !l.owns(h, cuts) {
			return errSegmentsChanged
		}
		return publish()
	}
	made, err := keys.Build(ctx, l.env.fs, spool, identity, l.sidecarName(h.Base()), opts.Options)
	if opts.background {
		l.sidecars.readBytes.Add(made.ReadBytes)
		l.sidecars.writtenBytes.Add(made.WrittenBytes)
	}
	if err != nil {
		return err
	}
	h.sidecar.Store(&sidecarNote{
		logBytes: identity.LogBytes, digest: spool.Identity().Digest, records: made.Records,
		verified: true,
	})
	return nil
}

// cutsNow is how often the end of the log was cut off so far.
func (l *Log) cutsNow() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.cuts
}

// owns tells whether a segment is the log's, sealed, and the same as when there were so many cuts.
// Log.maintain is held, so it stays so.
func (l *Log) owns(h *handle, cuts int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.list.Load()
	return list != nil && !h.doomed.Load() && slices.Contains(list.handles, h) &&
		list.active() != h && l.mu.cuts == cuts
}

// tendSidecars brings one sidecar of the log to where it shall be: one that is missing is made, one
// that does not pay is removed. It tells whether there may be more to do at once.
func (l *Log) tendSidecars(ctx context.Context, now time.Time, opts sidecarOptions) (more bool) {
	if fault := l.sidecars.fault.Swap(nil); fault != nil {
		l.env.logger.Warn("keys of a segment are not kept: it will be scanned", "partition", l.id,
			"error", *fault)
	}
	settings := l.Settings()
	if !settings.Compact {
		if settings.Delete { // a log without either has not been told its settings yet
			l.clearSidecars(ctx)
		}
		return false
	}
	l.sidecars.cleared.Store(false)
	h, wanted := l.nextSidecar(now)
	if h == nil {
		return false
	}
	defer h.release()
	if opts.maker.take(ctx) != nil {
		return false
	}
	defer opts.maker.give()
	if l.lockSidecars(ctx) != nil {
		return false
	}
	defer l.unlockSidecars()
	if !wanted {
		l.removeSidecar(h)
		return true
	}
	began := time.Now()
	err := l.makeSidecar(ctx, h, opts)
	switch {
	case err == nil:
		l.env.logger.Debug("key sidecar made", "partition", l.id, "segment", h.Base(), "took",
			time.Since(began))
		return true
	case ctx.Err() != nil, errors.Is(err, errSegmentsChanged), errors.Is(err, ErrClosed):
		return false
	}
	l.env.logger.Warn("key sidecar cannot be made", "partition", l.id, "segment", h.Base(), "error",
		err)
	h.sidecar.Store(&sidecarNote{logBytes: h.SizeBytes(), retry: now.Add(sidecarRetry)})
	return true
}

// nextSidecar returns the first sealed segment whose sidecar is missing or does not pay, and which
// of both; nil if there is none. The caller releases it.
func (l *Log) nextSidecar(now time.Time) (h *handle, wanted bool) {
	list := l.acquire()
	if list == nil {
		return nil, false
	}
	defer list.release()
	defer func() {
		if h != nil {
			h.acquire()
		}
	}()
	durable := l.durable.Load()
	for i, h := range list.handles[:len(list.handles)-1] {
		if list.handles[i+1].Base() > durable {
			break
		}
		if h.noted() == nil {
			l.lookAtSidecar(h)
		}
		note := h.noted()
		if note == nil {
			continue // the disk did not let us look
		}
		switch pays := keepsSidecar(note.logBytes, note.records); {
		case note.digest == 0 && pays && now.After(note.retry):
			return h, true
		case note.digest != 0 && !pays:
			return h, false
		}
	}
	return nil, false
}

// lookAtSidecar notes whether a segment has a sidecar that can be used. An error of the disk leaves
// that open.
func (l *Log) lookAtSidecar(h *handle) {
	size := h.SizeBytes()
	reader, err := l.openSidecar(h, false)
	switch {
	case err == nil:
		_ = reader.Close() // it was only read
	case keys.Unusable(err), errors.Is(err, fs.ErrNotExist):
		h.sidecar.Store(&sidecarNote{logBytes: size, records: estimateRecords(h)})
		if keys.Unusable(err) {
			l.env.logger.Info("key sidecar cannot be used: it is made anew", "partition", l.id,
				"segment", h.Base(), "error", err)
		}
	}
}

// sidecarRecordBytesMin is how large the records of a segment must be on disk, on average, for its
// sidecar to be kept (ADR 0081).
const sidecarRecordBytesMin = 100

// keepsSidecar tells whether the sidecar of a segment is kept, or only made for a pass: an entry
// has some 18 bytes, which is little beside a record of a kilobyte, and half of one of forty bytes
// (reference F11).
func keepsSidecar(logBytes int64, records int) bool {
	return logBytes >= sidecarRecordBytesMin*int64(records)
}

// estimateBatches is how many batches an estimate looks at.
const estimateBatches = 16

// estimateRecords is about how many records a segment has, by the headers of its first batches.
// Offsets would say nothing of a segment that was cleaned. What cannot be read counts as no
// records: then the sidecar is made, or fails with a reason.
func estimateRecords(h *handle) int {
	var position, records int64
	for range estimateBatches {
		header, err := h.HeaderAt(position)
		if err != nil {
			break
		}
		records += int64(header.Count())
		position += int64(header.SizeBytes)
	}
	if position == 0 {
		return 0
	}
	return int(float64(records) * float64(h.SizeBytes()) / float64(position))
}

// removeSidecar removes a sidecar. The note keeps how many records there are, so that it is not
// made again.
func (l *Log) removeSidecar(h *handle) {
	l.maintain.Lock()
	defer l.maintain.Unlock()
	list := l.list.Load()
	if list == nil || h.doomed.Load() || !slices.Contains(list.handles, h) {
		return
	}
	if err := l.env.fs.Remove(l.sidecarName(h.Base())); err != nil &&
		!errors.Is(err, fs.ErrNotExist) {
		l.env.logger.Warn("remove a key sidecar", "partition", l.id, "segment", h.Base(), "error",
			err)
	}
	note := sidecarNote{logBytes: h.SizeBytes()}
	if known := h.noted(); known != nil {
		note.records = known.records
	}
	h.sidecar.Store(&note)
}

// trimSidecars removes what was made for a pass only. The pass is over; a reader that is still open
// reads on.
func (l *Log) trimSidecars() {
	list := l.acquire()
	if list == nil {
		return
	}
	defer list.release()
	for _, h := range list.handles {
		if note := h.noted(); note != nil && note.digest != 0 &&
			!keepsSidecar(note.logBytes, note.records) {
			l.removeSidecar(h)
		}
	}
}

// clearSidecars removes all sidecars of a log that is not compacted, once. What a crash brings back
// is found at the next start.
func (l *Log) clearSidecars(ctx context.Context) {
	if l.sidecars.cleared.Load() || l.lockSidecars(ctx) != nil {
		return
	}
	defer l.unlockSidecars()
	l.maintain.Lock()
	defer l.maintain.Unlock()
	if l.list.Load() == nil {
		return // closed: the directory may not be this log's any more
	}
	l.mu.Lock()
	l.discardSpoolsLocked()
	l.mu.Unlock()
	entries, err := l.env.fs.ReadDir(l.dir)
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), keys.Extension) {
			err = errors.Join(err, l.env.fs.Remove(filepath.Join(l.dir, entry.Name())))
		}
	}
	if err != nil {
		l.env.logger.Warn("remove key sidecars of a log that is not compacted", "partition", l.id,
			"error", err)
		return
	}
	for _, h := range l.list.Load().handles {
		h.sidecar.Store(nil)
	}
	l.sidecars.cleared.Store(true)
}
