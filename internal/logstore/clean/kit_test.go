package clean

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// fakeLog is a minimal log for tests of passes: segments and sidecars on an in-memory file system,
// and a swap that is not crash-safe.
type fakeLog struct {
	t        testing.TB
	fsys     vfs.FS
	segments []*segment.Segment // the last one is active
	next     int64              // log end offset

	firstDirty int64
	now        time.Time
	job        Job // template of every pass
	commits    int
	epochs     []epochStart
	// epochMax is the highest leader epoch so far, including truncated epochs, because epochs are
	// never reused.
	epochMax int32
	open     map[int64]int64  // first offset of the open transaction, by producer
	dead     map[int64][]byte // .dead files, by base offset
	salt     keys.Salt
	scans    int // number of sidecars built by scanning their segments
}

var start = time.UnixMilli(1_000_000_000_000)

func newLog(t testing.TB) *fakeLog {
	l := &fakeLog{t: t, fsys: vfs.NewMem(), now: start, dead: map[int64][]byte{},
		salt: keys.Salt{1, 2, 3}, open: map[int64]int64{}, epochMax: -1}
	l.job = Job{
		Rules:            Rules{TombstoneRetention: time.Hour, KeepCodec: true},
		Limits:           Limits{MemoryBytes: 64 << 20},
		CleaningProgress: SingleReplica(),
	}
	l.roll()
	return l
}

func (l *fakeLog) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *fakeLog) roll() {
	l.t.Helper()
	s, err := segment.Create(l.fsys, "/", l.next, "", segment.Config{})
	l.must(err)
	if len(l.segments) > 0 {
		l.must(l.active().Seal())
	}
	l.segments = append(l.segments, s)
}

func (l *fakeLog) active() *segment.Segment { return l.segments[len(l.segments)-1] }

// put appends one batch of records "key=value", "key" (a tombstone) or "=value" (no key).
func (l *fakeLog) put(records ...string) {
	l.t.Helper()
	l.batch(compress.None, record.Identity{ProducerID: -1}, records...)
}

func (l *fakeLog) batch(codec compress.Codec, id record.Identity, records ...string) {
	l.t.Helper()
	id.BaseOffset, id.LastOffsetDelta = l.next, int32(len(records)-1)
	if id.LeaderEpoch == 0 {
		id.LeaderEpoch = l.epochAt(l.next)
	}
	builder := record.NewBuilder(codec, compress.LevelDefault)
	builder.Reset(id)
	for i, text := range records {
		r := record.Record{Offset: l.next + int64(i), Timestamp: l.now.UnixMilli() + int64(i)}
		key, value, valued := strings.Cut(text, "=")
		if key != "" {
			r.Key = []byte(key)
		}
		if valued {
			r.Value = []byte(value)
		}
		r.Headers = []record.Header{{Key: []byte("h"), Value: []byte(text)}, {Key: []byte("h")}}
		builder.Add(&r)
	}
	built, err := builder.Build(nil)
	l.must(err)
	l.appendRaw(built)
}

func (l *fakeLog) appendRaw(b record.Batch) {
	l.t.Helper()
	l.must(l.active().Append(b))
	l.next = b.NextOffset()
}

// pass runs a pass over all segments below the bound.
func (l *fakeLog) pass() Stats {
	l.t.Helper()
	stats, err := l.try(context.Background())
	l.must(err)
	return stats
}

func (l *fakeLog) try(ctx context.Context) (Stats, error) {
	stats, err := Run(ctx, l.whole())
	if err == nil {
		l.firstDirty = stats.CleanedTo
	}
	return stats, err
}

// whole returns a job for all segments below the bound.
func (l *fakeLog) whole() Job {
	job := l.job
	bound, segments := l.bound()
	for _, s := range l.segments[:segments] {
		job.Sources = append(job.Sources, Source{Segment: s, DeadFile: l.dead[s.Base()]})
	}
	job.FirstDirty, job.Bound, job.Now, job.Hasher = min(l.firstDirty, bound), bound, l.now,
		l.salt.Hasher()
	job.AbortedAcrossBound = l.abortedAcross(bound)
	job.Lineage = func(below int64) uint64 { return uint64(l.epochAt(below - 1)) }
	env := &job.Env
	if env.OpenSidecar == nil {
		env.OpenSidecar = l.sidecar
	}
	if env.Create == nil {
		env.Create = func(base int64) (*segment.Segment, error) {
			return segment.Create(l.fsys, "/", base, ".cleaned", segment.Config{})
		}
	}
	if env.DeriveSidecar == nil {
		env.DeriveSidecar = func(base int64) (*keys.Derivation, error) {
			return keys.NewDerivation(l.fsys,
				"/"+segment.Name(base, keys.SpoolExtension, ".cleaned"), base, l.salt), nil
		}
		env.SidecarName = l.derivedName
	}
	if env.Replace == nil {
		env.Replace = l.replace
	}
	if env.SaveDead == nil {
		env.SaveDead = func(s *segment.Segment, content []byte) error {
			if l.dead[s.Base()] = content; content == nil {
				delete(l.dead, s.Base())
			}
			return nil
		}
	}
	return job
}

// sidecar is the fake log's Env.OpenSidecar. It opens the segment's sidecar file, or builds the
// sidecar by scanning the segment.
func (l *fakeLog) sidecar(ctx context.Context, s *segment.Segment,
	opts SidecarOptions) (*keys.Reader,
	error) {
	name := "/" + segment.Name(s.Base(), keys.Extension, "")
	want := keys.Expect{Identity: keys.Identity{Base: s.Base(), LogBytes: s.SizeBytes()},
		SaltID: l.salt.ID()}
	if !opts.Rebuild {
		r, err := keys.Open(l.fsys, name, want)
		if err == nil {
			if err = r.Verify(s.File()); err == nil {
				return r, nil
			}
			l.must(r.Close())
		}
		if !errors.Is(err, fs.ErrNotExist) && !keys.Unusable(err) {
			return nil, err
		}
	}
	l.scans++
	spool := keys.NewSpool(l.fsys, "/"+segment.Name(s.Base(), keys.SpoolExtension, ""), s.Base(),
		l.salt)
	defer func() { l.must(spool.Discard()) }()
	if err := keys.Scan(s, l.salt.Hasher(), spool,
		keys.ScanOptions{BatchBytesMax: l.job.Limits.BatchBytesMax,
			Read: opts.LogRead}); err != nil {
		return nil, err
	}
	if _, err := keys.Build(ctx, l.fsys, spool, want.Identity, name,
		keys.Options{Throttle: func(_ context.Context,
			n int) error {
			return opts.SidecarWritten(n)
		}}); err != nil {
		return nil, err
	}
	return keys.Open(l.fsys, name, want)
}

func (l *fakeLog) derivedName(base int64) string {
	return "/" + segment.Name(base, keys.Extension, ".cleaned")
}

func (l *fakeLog) replace(sources, cleaned []*segment.Segment) error {
	l.commits++
	index := slices.Index(l.segments, sources[0])
	if index < 0 || !slices.Equal(l.segments[index:index+len(sources)], sources) {
		return fmt.Errorf("sources are not neighbours")
	}
	for _, s := range sources {
		l.must(s.Remove())
		delete(l.dead, s.Base())
		l.must(removed(l.fsys.Remove("/" + segment.Name(s.Base(), keys.Extension, ""))))
	}
	for _, s := range cleaned {
		l.must(s.Rename(""))
		l.must(removed(l.fsys.Rename(l.derivedName(s.Base()),
			"/"+segment.Name(s.Base(), keys.Extension, ""))))
	}
	l.segments = slices.Concat(l.segments[:index], cleaned, l.segments[index+len(sources):])
	return nil
}

// removed returns err, or nil if err is fs.ErrNotExist: the file to remove or rename is already
// gone.
func removed(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// batches returns copies of all batches, after checking their checksums and order.
func (l *fakeLog) batches() []record.Batch {
	l.t.Helper()
	var all []record.Batch
	end := int64(0)
	for _, s := range l.segments {
		l.must(s.Scan(0, func(_ int64, b record.Batch) error {
			if b.BaseOffset() < end || b.BaseOffset() < s.Base() {
				return fmt.Errorf("batch at %d after %d in segment %d", b.BaseOffset(), end,
					s.Base())
			}
			end = b.NextOffset()
			all = append(all, bytes.Clone(b))
			return b.CheckCRC()
		}))
	}
	return all
}

// records returns the text of each record by offset.
func (l *fakeLog) records() map[int64]string {
	l.t.Helper()
	all := map[int64]string{}
	for _, b := range l.batches() {
		l.must(b.Records(1<<30, func(r *record.Record) error {
			all[r.Offset] = text(r)
			return nil
		}))
	}
	return all
}

func text(r *record.Record) string {
	key, value := "", ""
	if r.Key != nil {
		key = string(r.Key)
	}
	if r.Value != nil {
		value = "=" + string(r.Value)
	}
	out := fmt.Sprintf("%s%s@%d", key, value, r.Timestamp)
	for _, h := range r.Headers {
		out += fmt.Sprintf(" %s:%s", h.Key, h.Value)
	}
	return out
}

// content returns the records in short form: "0:a=1 3:b".
func (l *fakeLog) content() string {
	l.t.Helper()
	var all []string
	for _, b := range l.batches() {
		l.must(b.Records(1<<30, func(r *record.Record) error {
			short, _, _ := strings.Cut(text(r), "@")
			all = append(all, fmt.Sprintf("%d:%s", r.Offset, short))
			return nil
		}))
	}
	return strings.Join(all, " ")
}

func (l *fakeLog) want(content string) {
	l.t.Helper()
	if got := l.content(); got != content {
		l.t.Errorf("log contains\n%s, want\n%s", got, content)
	}
}

// leftovers returns the names of the unfinished output files that a pass has not removed.
func (l *fakeLog) leftovers() []string {
	l.t.Helper()
	entries, err := l.fsys.ReadDir("/")
	l.must(err)
	var all []string
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), ".cleaned") {
			all = append(all, entry.Name())
		}
	}
	return all
}

// producers returns a Job.Producers value from each producer's last data offset.
func producers(last map[int64]int64) map[int64]Producer {
	all := map[int64]Producer{}
	for id, offset := range last {
		all[id] = Producer{LastOffset: offset}
	}
	return all
}

// freeFor returns the free space of a disk on which a rewrite may use n bytes (rewriteGroup.fits).
func freeFor(n uint64) uint64 { return n + n/3 }
