package clean

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// onDisk returns a fake log in a real directory. With it, a benchmark measures real I/O.
func onDisk(b *testing.B) *fakeLog {
	l := newLog(b)
	dir := b.TempDir()
	l.fsys = rooted{vfs.OS{}, dir}
	l.segments = nil
	l.roll()
	b.Cleanup(func() {
		for _, s := range l.segments {
			_ = s.Close()
		}
	})
	return l
}

// rooted is a file system whose root is a real directory.
type rooted struct {
	vfs.OS
	root string
}

func (r rooted) Open(name string) (vfs.File, error) { return r.OS.Open(r.root + name) }
func (r rooted) OpenReadWrite(name string) (vfs.File, error) {
	return r.OS.OpenReadWrite(r.root + name)
}
func (r rooted) Create(name string) (vfs.File, error) { return r.OS.Create(r.root + name) }
func (r rooted) Rename(from, to string) error {
	return r.OS.Rename(r.root+from,
		r.root+to)
}
func (r rooted) Remove(name string) error              { return r.OS.Remove(r.root + name) }
func (r rooted) SyncDir(name string) error             { return r.OS.SyncDir(r.root + name) }
func (r rooted) Stat(name string) (fs.FileInfo, error) { return r.OS.Stat(r.root + name) }
func (r rooted) Chtimes(name string,
	mtime time.Time) error {
	return r.OS.Chtimes(r.root+name, mtime)
}

// cpuTime returns the CPU time that the process has used. Unlike elapsed time, it hardly depends on
// other processes on the machine.
func cpuTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkDedupe measures deduplication without the other steps of a pass, in CPU time per entry.
// The machine's memory bandwidth limits it.
func BenchmarkDedupe(b *testing.B) {
	l := newLog(b)
	const segments, each = 16, 250_000
	for s := range segments {
		l.many(each, func(i int) string { return fmt.Sprintf("k%d", (i*7919+s*104_729)%(each*8)) })
		l.roll()
	}
	for _, budget := range []int64{1 << 20, 8 << 20, 64 << 20} {
		b.Run(fmt.Sprintf("%dMiB", budget>>20), func(b *testing.B) {
			job := l.whole()
			job.Limits.MemoryBytes = budget + 3*segments*each/8
			p := newPass(b.Context(), job.withDefaults())
			l.must(p.index())
			defer func() { l.must(p.close()) }()
			l.must(p.findTransactions(window{0, len(p.plans)}))
			began := cpuTime(b)
			for b.Loop() {
				l.must(p.deduplicate(window{0, len(p.plans)}))
			}
			b.ReportMetric(
				float64((cpuTime(b)-began).Nanoseconds())/float64(b.N)/float64(entryCount(p.plans)),
				"cpu-ns/entry",
			)
		})
	}
}

// BenchmarkRewriteVerbatim measures the rewrite of a segment without dead records and, for
// comparison, a copy of its file.
func BenchmarkRewriteVerbatim(b *testing.B) {
	value := strings.Repeat("v", 1000)
	l := onDisk(b)
	records := make([]string, 0, 16)
	for i := range 200_000 {
		if records = append(records,
			fmt.Sprintf("key%d=%s", i, value)); len(records) == cap(records) {
			l.batch(compress.None, record.Identity{ProducerID: -1}, records...)
			records = records[:0]
		}
	}
	l.roll()
	size := l.segments[0].SizeBytes()
	var steps []Step
	for name, stage := range map[string]func(Step){
		"rewrite": nil,
		// This is what the cleaner does with a step, without the copy for reports.
		"rewrite with steps": func(step Step) {
			_ = time.Now()
			steps = append(steps[:min(len(steps), 1000)], step)
		},
	} {
		b.Run(name, func(b *testing.B) { rewriteWhole(b, l, stage) })
	}
	b.Run("copy", func(b *testing.B) {
		b.SetBytes(size)
		buffer := make([]byte, chunkBytesMax)
		dir := b.TempDir()
		began := cpuTime(b)
		for b.Loop() {
			from := io.NewSectionReader(l.segments[0].File(), 0, size)
			to, err := os.Create(filepath.Join(dir, "copy"))
			l.must(err)
			_, err = io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, buffer)
			l.must(err)
			l.must(to.Sync())
			l.must(to.Close())
		}
		b.ReportMetric(float64((cpuTime(b)-began).Milliseconds())/float64(b.N)/float64(size)*1e9,
			"cpu-ms/GB")
	})
}

// BenchmarkSidecarScan measures the time per record of building a segment's sidecar from the
// segment's data.
func BenchmarkSidecarScan(b *testing.B) {
	l := newLog(b)
	l.many(200_000, func(i int) string { return fmt.Sprintf("key%d", i) })
	l.roll()
	opts := unthrottled()
	opts.Rebuild = true
	for b.Loop() {
		r, err := l.sidecar(b.Context(), l.segments[0], opts)
		l.must(err)
		l.must(r.Close())
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/200_000, "ns/record")
}

// rewriteWhole measures the rewrite of a segment without dead records.
func rewriteWhole(b *testing.B, l *fakeLog, stage func(Step)) {
	size := l.segments[0].SizeBytes()
	b.SetBytes(size)
	job := l.whole()
	job.Env.Stage = stage
	p := newPass(b.Context(), job.withDefaults())
	l.must(p.index())
	defer func() { l.must(p.close()) }()
	l.must(p.findTransactions(window{0, 1}))
	began := cpuTime(b)
	for b.Loop() {
		r := p.newGroupRewrite(p.plans)
		l.must(r.write())
		l.must(r.finish())
		l.must(r.writer.discard())
		l.must(removed(l.fsys.Remove(l.derivedName(0))))
	}
	b.ReportMetric(float64((cpuTime(b)-began).Milliseconds())/float64(b.N)/float64(size)*1e9,
		"cpu-ms/GB")
}
