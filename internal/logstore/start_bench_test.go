package logstore

import (
	"syscall"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore/datadir"
	"heartwood.dev/heartwood/internal/vfs"
)

// unsyncedDisk is a real disk without syncs, because a benchmark's data does not have to survive a
// power failure.
type unsyncedDisk struct{ vfs.OS }

func (d unsyncedDisk) Create(name string) (vfs.File, error) {
	file, err := d.OS.Create(name)
	return unsyncedFile{file}, err
}

func (d unsyncedDisk) OpenReadWrite(name string) (vfs.File, error) {
	file, err := d.OS.OpenReadWrite(name)
	return unsyncedFile{file}, err
}

func (unsyncedDisk) SyncDir(string) error { return nil }

type unsyncedFile struct{ vfs.File }

func (unsyncedFile) Sync() error { return nil }

// BenchmarkStart opens 1,000 logs of 10 segments, after a clean and after an unclean shutdown. It
// reports the time and the CPU time of a start, and the number of segment files that are open after
// the start. docs/internals/bench/start.md contains results.
func BenchmarkStart(b *testing.B) {
	const logs, segments = 1000, 10
	for _, clean := range []bool{true, false} {
		name := "unclean"
		if clean {
			name = "clean"
		}
		b.Run(name, func(b *testing.B) {
			opts := Options{FS: unsyncedDisk{}, Dir: b.TempDir(), Logger: quiet(),
				FlushInterval: time.Hour}
			store, err := Open(opts)
			if err != nil {
				b.Fatal(err)
			}
			var specs []LogSpec
			for i := range int32(logs) {
				specs = append(specs,
					LogSpec{ID: PartitionID{Topic: "many", Index: i}, Topic: topicOne,
						Settings: settings(nil)})
			}
			for _, created := range store.CreateAll(specs) {
				if created.Err != nil {
					b.Fatal(created.Err)
				}
				if err := created.Log.Lead(1); err != nil {
					b.Fatal(err)
				}
				fill(b, created.Log, 10*(segments-1)+5) // a segment has room for ten batches
			}
			store.tick(epoch0, false)
			if err := store.Close(); err != nil {
				b.Fatal(err)
			}
			var cpu time.Duration
			open := 0
			for b.Loop() {
				if !clean {
					_ = opts.FS.Remove(opts.Dir + "/" + datadir.CleanShutdownFile)
				}
				before := cpuTime(b)
				if store, err = Open(opts); err != nil {
					b.Fatal(err)
				}
				cpu += cpuTime(b) - before
				open = store.handles.Open()
				b.StopTimer()
				if n := len(store.Logs()); n != logs {
					b.Fatalf("%d logs", n)
				}
				if err := store.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(cpu.Milliseconds())/float64(b.N), "cpu-ms/op")
			b.ReportMetric(float64(open), "files")
		})
	}
}

// cpuTime returns the user and system time of this process.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
